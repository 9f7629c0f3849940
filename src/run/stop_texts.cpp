#include "run/stop_texts.h"

#include <algorithm>
#include <utility>

namespace onepass::llm {

std::string StopTexts::next(std::string_view piece) {
  if (found_) return {};
  held_ += piece;
  std::size_t begin = held_.npos, end = held_.npos;
  for (const std::string& text : texts_) {
    const std::size_t at = held_.find(text);
    if (at == held_.npos) continue;
    if (std::pair(at + text.size(), at) < std::pair(end, begin)) {
      begin = at, end = at + text.size();
    }
  }
  if (begin != held_.npos) {
    found_ = true;
    held_.resize(begin);
    return std::exchange(held_, {});
  }
  // The longest end of the text that begins a stop text.
  std::size_t keep = 0;
  for (const std::string& text : texts_) {
    std::size_t n = std::min(text.size() - 1, held_.size());
    while (n > keep && !held_.ends_with(std::string_view(text).substr(0, n))) --n;
    keep = std::max(keep, n);
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopTexts::finish() { return std::exchange(held_, {}); }

}  // namespace onepass::llm
