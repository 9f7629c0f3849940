// 64-bit numbers in params travel as two halves.
#pragma once

#include <cstdint>

namespace onepass::ops {

inline std::uint64_t join(std::uint32_t lo, std::uint32_t hi) noexcept {
  return std::uint64_t{hi} << 32 | lo;
}

}  // namespace onepass::ops
