// Arithmetic shared by the families' launch functions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "onepass/kernel.h"

namespace onepass::ops {

// Groups in x and y of a CUDA grid; kernels loop where there is more work.
inline constexpr std::uint32_t max_cuda_grid_x = 0x7fffffff;
inline constexpr std::uint32_t max_cuda_grid_y = 0xffff;

// Product that stops at 2^64 - 1 instead of wrapping.
std::uint64_t product(std::initializer_list<std::uint64_t> factors) noexcept;

// Bytes of rows x cols elements of a format, padding of packed ones included; 2^64 - 1 where that
// is no number of whole blocks.
std::uint64_t matrix_bytes(Format format, std::uint64_t rows, std::uint64_t cols) noexcept;

// Parts for `units` pieces of `unit_elements` each that cannot be cut further: about 16,384
// elements per part, whatever the device.
std::uint32_t tiles_for(std::uint64_t units, std::uint64_t unit_elements) noexcept;

// A CUDA grid of groups of `threads` for n units, one per thread, up to the limit in x; kernels go
// on in steps of the grid.
void cover(Launch& launch, std::uint64_t n, std::uint32_t threads) noexcept;

// The guard of hand-made dispatches: view i must have at least needs[i] bytes, and there must be
// as many views as needs.
Status expect_views(const Dispatch& d, std::initializer_list<std::uint64_t> needs);
// The same for ops with forms, whose last views may be left out where needs are 0.
Status expect_views(const Dispatch& d, std::span<const std::uint64_t> needs);

// Sum of the dispatch's view lengths.
std::uint64_t view_bytes(const Dispatch& d) noexcept;

}  // namespace onepass::ops
