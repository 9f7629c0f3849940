#include "text/template/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "io/numbers.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm::chat {
namespace {

using text::append_utf8;
using text::Char;

Char decode_at(std::string_view s, std::size_t at) noexcept {
  return text::decode(s.data() + at, s.data() + s.size());
}

bool is_continuation(char c) noexcept { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

// The last code point that ends before `end`.
std::size_t previous(std::string_view s, std::size_t end) noexcept {
  std::size_t at = end - 1;
  while (at > 0 && is_continuation(s[at])) --at;
  return at;
}

utf8proc_category_t category(std::uint32_t c) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cased(std::uint32_t c) noexcept {
  const auto value = static_cast<utf8proc_int32_t>(c);
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL ||
         kind == UTF8PROC_CATEGORY_LT || utf8proc_toupper(value) != value ||
         utf8proc_tolower(value) != value;
}

void append_upper(std::string& out, std::uint32_t c) {
  if (c == 0xDF) {
    out += "SS";  // the only one of the common letters that becomes two
  } else {
    append_utf8(out, static_cast<std::uint32_t>(utf8proc_toupper(static_cast<int>(c))));
  }
}
void append_lower(std::string& out, std::uint32_t c) {
  append_utf8(out, static_cast<std::uint32_t>(utf8proc_tolower(static_cast<int>(c))));
}

template <class F>
void for_each(std::string_view s, F&& f) {
  for (std::size_t at = 0; at < s.size();) {
    const Char c = decode_at(s, at);
    f(c.value, s.substr(at, c.bytes));
    at += c.bytes;
  }
}

template <class F>
std::string_view cut_left(std::string_view s, F&& drop) {
  while (!s.empty()) {
    const Char c = decode_at(s, 0);
    if (!drop(c.value, s.substr(0, c.bytes))) break;
    s.remove_prefix(c.bytes);
  }
  return s;
}
template <class F>
std::string_view cut_right(std::string_view s, F&& drop) {
  while (!s.empty()) {
    const std::size_t at = previous(s, s.size());
    if (!drop(decode_at(s, at).value, s.substr(at))) break;
    s = s.substr(0, at);
  }
  return s;
}

bool is_line_end(std::uint32_t c) noexcept {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

std::size_t count_code_points(std::string_view text) noexcept {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::size_t byte_of(std::string_view text, std::size_t index) noexcept {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (is_continuation(text[at])) continue;
    if (index == 0) break;
    --index;
  }
  return at;
}

std::vector<std::string_view> code_points(std::string_view text) {
  std::vector<std::string_view> parts;
  for_each(text, [&](std::uint32_t, std::string_view part) { parts.push_back(part); });
  return parts;
}

bool is_space(std::uint32_t c) noexcept {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(std::uint32_t c) noexcept {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

std::string upper(std::string_view text) {
  std::string out;
  for_each(text, [&](std::uint32_t c, std::string_view) { append_upper(out, c); });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for_each(text, [&](std::uint32_t c, std::string_view) { append_lower(out, c); });
  return out;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const Char first = decode_at(text, 0);
  std::string out;
  append_upper(out, first.value);
  return out + lower(text.substr(first.bytes));
}

std::string title(std::string_view text) {
  std::string out;
  bool inside = false;
  for_each(text, [&](std::uint32_t c, std::string_view) {
    if (inside) {
      append_lower(out, c);
    } else {
      append_upper(out, c);
    }
    inside = is_cased(c);
  });
  return out;
}

bool is_upper(std::string_view text) noexcept {
  bool any = false, all = true;
  for_each(text, [&](std::uint32_t c, std::string_view) {
    if (category(c) == UTF8PROC_CATEGORY_LU) any = true;
    if (category(c) == UTF8PROC_CATEGORY_LL || category(c) == UTF8PROC_CATEGORY_LT) all = false;
  });
  return any && all;
}

bool is_lower(std::string_view text) noexcept {
  bool any = false, all = true;
  for_each(text, [&](std::uint32_t c, std::string_view) {
    if (category(c) == UTF8PROC_CATEGORY_LL) any = true;
    if (category(c) == UTF8PROC_CATEGORY_LU || category(c) == UTF8PROC_CATEGORY_LT) all = false;
  });
  return any && all;
}

bool consists_of(std::string_view text, std::string_view kinds) noexcept {
  bool all = !text.empty();
  for_each(text, [&](std::uint32_t c, std::string_view) {
    char kind = '.';
    switch (category(c)) {
      case UTF8PROC_CATEGORY_LU:
      case UTF8PROC_CATEGORY_LL:
      case UTF8PROC_CATEGORY_LT:
      case UTF8PROC_CATEGORY_LM:
      case UTF8PROC_CATEGORY_LO:
        kind = 'a';
        break;
      case UTF8PROC_CATEGORY_ND:
        kind = '0';
        break;
      default:
        if (is_space(c)) kind = ' ';
    }
    if (kinds.find(kind) == kinds.npos) all = false;
  });
  return all;
}

std::string_view strip_left(std::string_view text) {
  return cut_left(text, [](std::uint32_t c, std::string_view) { return is_space(c); });
}
std::string_view strip_right(std::string_view text) {
  return cut_right(text, [](std::uint32_t c, std::string_view) { return is_space(c); });
}
std::string_view strip_left(std::string_view text, std::string_view set) {
  return cut_left(text, [&](std::uint32_t, std::string_view c) { return set.find(c) != set.npos; });
}
std::string_view strip_right(std::string_view text, std::string_view set) {
  return cut_right(text,
                   [&](std::uint32_t, std::string_view c) { return set.find(c) != set.npos; });
}

std::vector<std::string_view> split_space(std::string_view text, std::int64_t max_splits,
                                          bool from_right) {
  std::vector<std::string_view> parts;
  const auto is_gap = [](std::uint32_t c, std::string_view) { return is_space(c); };
  const auto is_word = [](std::uint32_t c, std::string_view) { return !is_space(c); };
  text = from_right ? cut_right(text, is_gap) : cut_left(text, is_gap);
  while (!text.empty()) {
    if (max_splits >= 0 && parts.size() == static_cast<std::size_t>(max_splits)) {
      parts.push_back(text);
      break;
    }
    if (from_right) {
      const std::string_view rest = cut_right(text, is_word);
      parts.push_back(text.substr(rest.size()));
      text = cut_right(rest, is_gap);
    } else {
      const std::string_view rest = cut_left(text, is_word);
      parts.push_back(text.substr(0, text.size() - rest.size()));
      text = cut_left(rest, is_gap);
    }
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    std::int64_t max_splits, bool from_right) {
  std::vector<std::string_view> parts;
  while (max_splits < 0 || parts.size() < static_cast<std::size_t>(max_splits)) {
    const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    if (from_right) {
      parts.push_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    } else {
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at + separator.size());
    }
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Char c = decode_at(text, at);
    std::size_t next = at + c.bytes;
    if (is_line_end(c.value)) {
      if (c.value == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(text.substr(start, (keep_ends ? next : at) - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view shortest(buffer, static_cast<std::size_t>(result.ptr - buffer));
  const std::size_t e = shortest.find('e');
  const int exponent = std::atoi(std::string(shortest.substr(e + 1)).c_str());
  std::string digits;
  for (const char c : shortest.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  std::string out = shortest.front() == '-' ? "-" : "";
  const auto n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (n > 1) out += "." + digits.substr(1);
    std::snprintf(buffer, sizeof buffer, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
    return out + buffer;
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::optional<double> read_real(std::string_view text) {
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  const std::string word = lower(text);
  double value = 0.0;
  if (word == "inf" || word == "infinity") {
    value = HUGE_VAL;
  } else if (word == "nan") {
    value = std::nan("");
  } else {
    if (text.starts_with('-')) return {};  // a second sign
    const auto decimal = io::decimal_value(text);
    if (!decimal) return {};
    value = *decimal;
  }
  return minus ? -value : value;
}

std::string quoted(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  char buffer[16];
  for_each(text, [&](std::uint32_t c, std::string_view part) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\' || c == static_cast<std::uint32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (is_printable(c)) {
      out += part;
    } else {
      std::snprintf(buffer, sizeof buffer,
                    c < 0x100     ? "\\x%02x"
                    : c < 0x10000 ? "\\u%04x"
                                  : "\\U%08x",
                    c);
      out += buffer;
    }
  });
  return out + quote;
}

}  // namespace onepass::llm::chat
