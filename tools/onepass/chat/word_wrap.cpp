#include "word_wrap.h"

#include <algorithm>

#include "chat/wide_text.h"

namespace onepass::tool {

void WordWrap::put_word(std::string& out) {
  if (word_.empty()) return;
  if (column_ > 0 && column_ + space_.size() + word_columns_ > columns_) {
    out += '\n';
    column_ = 0;
  } else {
    out += space_;
    column_ += space_.size();
  }
  out += word_;
  column_ += word_columns_;
  if (column_ > columns_) column_ %= columns_;  // the terminal broke it
  space_.clear();
  word_.clear();
  word_columns_ = 0;
}

std::string WordWrap::next(std::string_view piece) {
  if (columns_ == 0) return std::string(piece);
  std::string out;
  for (const wchar_t character : to_wide(piece)) {
    if (character == L'\n') {
      put_word(out);
      out += '\n';
      column_ = 0;
      space_.clear();
      continue;
    }
    if (character == L' ') {
      put_word(out);
      space_ += ' ';
      continue;
    }
    const auto width = static_cast<std::size_t>(columns_of(character));
    // Between wide characters there may be a break, and no word waits for more than a line.
    if (width == 2 || word_columns_ + width > columns_) put_word(out);
    word_ += to_utf8({&character, 1});
    word_columns_ += width;
    if (width == 2) put_word(out);
  }
  return out;
}

std::string WordWrap::finish() {
  std::string out;
  put_word(out);
  out += space_;
  space_.clear();
  column_ = 0;
  return out;
}

}  // namespace onepass::tool
