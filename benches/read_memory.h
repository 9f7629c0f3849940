// Reading memory as fast as a core can: what products and attention are compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace onepass_bench {

// The sum of `bytes` bytes as 64-bit words, a multiple of 256. Four places at once: a core that
// reads one after the other does not keep the memory busy.
inline std::uint64_t sum_memory(const std::byte* p, std::uint64_t bytes) noexcept {
  using Vector = std::uint64_t __attribute__((vector_size(16)));
  const std::uint64_t quarter = bytes / 4;
  Vector sums[4] = {};
  for (std::uint64_t i = 0; i < quarter; i += 64) {
    for (std::uint64_t stream = 0; stream < 4; ++stream) {
      Vector line[4];
      std::memcpy(line, p + stream * quarter + i, sizeof line);
      sums[stream] += (line[0] + line[1]) + (line[2] + line[3]);
    }
  }
  const Vector all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return all[0] + all[1];
}

}  // namespace onepass_bench
