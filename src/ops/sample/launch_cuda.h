// Sizes that the CUDA kernels of this family and their launch arithmetic share.
#pragma once

#include <cstdint>

namespace onepass::ops {

// Up to this many numbers are sorted in shared memory; more of them need scratch, twice.
inline constexpr std::uint32_t select_shared = 1024;
inline constexpr std::uint32_t select_shared_bytes = 8 * 1024 + 1024 + 32 * 1024 + 4096 + 64;
// Rows of which whole sorts are in scratch at the same time.
inline constexpr std::uint32_t select_sorts = 32;

}  // namespace onepass::ops
