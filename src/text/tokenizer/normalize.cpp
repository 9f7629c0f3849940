#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm::text {
namespace {

const char* find_wide(const char* p, const char* end) noexcept {
  std::uint64_t word = 0;
  for (; end - p >= 8; p += 8) {
    std::memcpy(&word, p, 8);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (p < end && static_cast<unsigned char>(*p) < 0x80) ++p;
  return p;
}

int combining_class(utf8proc_int32_t c) noexcept {
  return utf8proc_get_property(c)->combining_class;
}

// Decomposes and composes one stretch of code points; the buffer is reused.
class Former {
 public:
  explicit Former(UnicodeForm form) noexcept
      : options_(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                 (form == UnicodeForm::nfkc || form == UnicodeForm::nfkd ? UTF8PROC_COMPAT : 0)),
        composes_(form == UnicodeForm::nfc || form == UnicodeForm::nfkc) {}

  void add(std::uint32_t c) {
    utf8proc_int32_t parts[32];
    int bound = 0;
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32,
                                           static_cast<utf8proc_option_t>(options_), &bound);
    if (n < 1 || n > 32) {
      points_.push_back(static_cast<utf8proc_int32_t>(c));
    } else {
      points_.insert(points_.end(), parts, parts + n);
    }
  }

  void flush(std::string& out) {
    for (auto i = points_.begin(); i != points_.end();) {
      if (combining_class(*i) == 0) {
        ++i;
        continue;
      }
      const auto end =
          std::find_if(i, points_.end(), [](auto c) { return combining_class(c) == 0; });
      std::stable_sort(i, end,
                       [](auto a, auto b) { return combining_class(a) < combining_class(b); });
      i = end;
    }
    auto n = static_cast<utf8proc_ssize_t>(points_.size());
    if (composes_ && n > 0) {
      n = utf8proc_normalize_utf32(
          points_.data(), n, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    }
    for (utf8proc_ssize_t i = 0; i < n; ++i) {
      append_utf8(out, static_cast<std::uint32_t>(points_[static_cast<std::size_t>(i)]));
    }
    points_.clear();
  }

 private:
  int options_;
  bool composes_;
  std::vector<utf8proc_int32_t> points_;
};

std::string prepend(const Prepend& step, std::string_view text, bool at_start) {
  const bool skips = text.empty() || (step.only_at_start && !at_start) ||
                     (step.unless_present && text.starts_with(step.text));
  std::string out;
  if (!skips) {
    out.reserve(text.size() + step.text.size());
    out = step.text;
  }
  return out.append(text);
}

Result<std::string> replace(const Replace& step, std::string_view text) {
  if (const auto* literal = std::get_if<std::string>(&step.from)) {
    return replace_all(text, *literal, step.to);
  }
  std::string out;
  std::size_t at = 0;
  const auto found = [&](std::size_t begin, std::size_t end) {
    out.append(text, at, begin - at).append(step.to);
    at = end;
    return true;
  };
  ONEPASS_TRY(std::get<RegexRule>(step.from)->each_match(text, found));
  return std::move(out.append(text, at));
}

}  // namespace

std::string unicode_form(UnicodeForm form, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Former former(form);
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    // ASCII composes with nothing before it, but may with what comes after.
    const char* wide = find_wide(p, end);
    const char* start = wide == p || wide == end ? wide : wide - 1;
    out.append(p, start);
    p = start;
    if (p < wide) former.add(static_cast<unsigned char>(*p++));
    while (p < end && static_cast<unsigned char>(*p) >= 0x80) {
      const Char c = decode(p, end);
      if (c.is_invalid()) {
        former.flush(out);
        out.push_back(*p);
      } else {
        former.add(c.value);
      }
      p += c.bytes;
    }
    former.flush(out);
  }
  return out;
}

Result<std::string> normalize(const Normalizer& step, std::string_view text, bool at_start) {
  if (const auto* form = std::get_if<UnicodeForm>(&step)) return unicode_form(*form, text);
  if (const auto* p = std::get_if<Prepend>(&step)) return prepend(*p, text, at_start);
  return replace(std::get<Replace>(step), text);
}

}  // namespace onepass::llm::text
