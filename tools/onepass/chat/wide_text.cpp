#include "wide_text.h"

#include <algorithm>
#include <cwchar>

namespace onepass::tool {
namespace {

constexpr wchar_t replacement = 0xfffd;

}  // namespace

std::optional<wchar_t> Utf8Decoder::next(unsigned char byte) {
  if (missing_ > 0 && (byte & 0xc0) == 0x80) {
    code_ = code_ << 6 | (byte & 0x3f);
    if (--missing_ > 0) return {};
    const bool bad = code_ > 0x10ffff || (code_ >= 0xd800 && code_ <= 0xdfff);
    return bad ? replacement : static_cast<wchar_t>(code_);
  }
  missing_ = 0;
  if (byte < 0x80) return static_cast<wchar_t>(byte);
  if (byte >= 0xc2 && byte <= 0xdf) {
    missing_ = 1, code_ = byte & 0x1f;
  } else if (byte >= 0xe0 && byte <= 0xef) {
    missing_ = 2, code_ = byte & 0x0f;
  } else if (byte >= 0xf0 && byte <= 0xf4) {
    missing_ = 3, code_ = byte & 0x07;
  } else {
    return replacement;
  }
  return {};
}

std::wstring to_wide(std::string_view utf8) {
  Utf8Decoder decoder;
  std::wstring text;
  for (const char byte : utf8) {
    if (const auto c = decoder.next(static_cast<unsigned char>(byte))) text += *c;
  }
  return text;
}

std::string to_utf8(std::wstring_view text) {
  std::string out;
  const auto tail = [&](char32_t code, int bytes) {
    for (int shift = 6 * (bytes - 1); shift >= 0; shift -= 6) {
      out += static_cast<char>(0x80 | (code >> shift & 0x3f));
    }
  };
  for (const wchar_t character : text) {
    const auto code = static_cast<char32_t>(character);
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | code >> 6);
      tail(code, 1);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | code >> 12);
      tail(code, 2);
    } else {
      out += static_cast<char>(0xf0 | code >> 18);
      tail(code, 3);
    }
  }
  return out;
}

int columns_of(wchar_t character) { return std::max(::wcwidth(character), 0); }

}  // namespace onepass::tool
