// One way of packing: a row of the list that pack(), pack_affine() and unpack_row() look in.
#pragma once

#include <span>

#include "quant/packed.h"

namespace onepass::quant {

struct PackRow {
  DType native, packed;  // native of affine weights: the type of their scales
  Layout layout;
  void (*pack)(std::uint64_t rows, std::uint64_t cols, const std::byte* src, std::byte* dst);
  void (*pack_affine)(const AffineRows& from, std::uint64_t rows, std::uint64_t cols,
                      std::byte* dst);
  void (*unpack)(const std::byte* matrix, std::uint64_t row, std::uint64_t cols, float* out);
  std::uint32_t affine_bits = 0;
};

std::span<const PackRow> split_rows() noexcept;  // Layout::split

}  // namespace onepass::quant
