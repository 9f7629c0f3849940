#include "io/numbers.h"

#include <fast_float/fast_float.h>

#include <charconv>

namespace onepass::io {

std::optional<std::uint64_t> whole_value(std::string_view text) noexcept {
  const char* end = text.data() + text.size();
  std::uint64_t value = 0;
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

std::optional<double> decimal_value(std::string_view text) noexcept {
  // fast_float also reads the words inf and nan.
  if (text.find_first_not_of("0123456789.eE+-") != text.npos) return std::nullopt;
  const char* end = text.data() + text.size();
  double value = 0.0;
  const auto [at, error] = fast_float::from_chars(text.data(), end, value);
  // Newer versions name what is too large or too small an error, with the same value.
  if (error == std::errc::invalid_argument || at != end) return std::nullopt;
  return value;
}

}  // namespace onepass::io
