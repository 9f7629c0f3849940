// The last of several tiles to finish combines what they left in scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onepass::ops {

// True for one of n calls with this counter, the last; everything done before the other calls
// happened before. The counter is 0 before the first and after the last.
inline bool last_tile(std::byte* counter, std::uint32_t n) noexcept {
  auto* count = reinterpret_cast<std::uint32_t*>(counter);
  if (__atomic_add_fetch(count, 1, __ATOMIC_ACQ_REL) != n) return false;
  __atomic_store_n(count, 0, __ATOMIC_RELAXED);
  return true;
}

}  // namespace onepass::ops
