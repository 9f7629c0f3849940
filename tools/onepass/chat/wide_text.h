// Text as code points, and how wide a terminal draws it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace onepass::tool {

// One byte after the other; what is no UTF-8 becomes U+FFFD.
class Utf8Decoder {
 public:
  // A code point where the byte completes one.
  std::optional<wchar_t> next(unsigned char byte);

 private:
  char32_t code_ = 0;
  int missing_ = 0;  // bytes
};

std::wstring to_wide(std::string_view utf8);
std::string to_utf8(std::wstring_view text);
// Columns: 0, 1 or 2.
int columns_of(wchar_t character);

}  // namespace onepass::tool
