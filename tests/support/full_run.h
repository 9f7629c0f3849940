// How much a test that draws its cases at random does.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/os.h"

namespace onepass::test {

inline bool full_run() {
  const char* value = std::getenv("ONEPASS_FULL");
  return value != nullptr && std::string_view(value) == "1";
}
// With ONEPASS_FULL=1 `full`, else `ci`; a tenth of it under sanitizers, which are ten times
// slower.
inline std::uint32_t count(std::uint32_t ci, std::uint32_t full) {
  return full_run() ? full : os::sanitized ? ci / 10 : ci;
}

}  // namespace onepass::test
