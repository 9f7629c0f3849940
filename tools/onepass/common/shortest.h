// Numbers as people type them: the fewest digits that give the same number back.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <string>

namespace onepass::tool {

// "0.7" for 0.7f; of what is not finite "nan" or "inf".
std::string shortest(std::floating_point auto number) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number);
  return error == std::errc() ? std::string(text, end) : "nan";
}

}  // namespace onepass::tool
