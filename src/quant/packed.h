// Weights in the layouts that kernels like: the rows LAYOUT of tables/formats.def.
//
//   ONEPASS_TRY(quant::pack(formats::q4_0_r16, n, k, file_bytes, buffer_bytes));
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "onepass/dtype.h"
#include "onepass/result.h"

namespace onepass::quant {

inline constexpr std::size_t group_rows = 16;

// The type of such MLX affine weights (quant/affine.h) in packed layouts; scales f32, f16 or bf16.
std::optional<DType> affine_type(std::uint32_t bits, std::uint32_t group_size, DType scale_type);

// Packs rows of the format's type, as they are in a file. A matrix may be packed in parts of 16
// rows: what n rows need lies storage_bytes(to, n, cols) bytes after the start. A scale other than
// 1 multiplies every value; only formats whose rows have scales take one.
Status pack(Format to, std::uint64_t rows, std::uint64_t cols, std::span<const std::byte> src,
            std::span<std::byte> dst, float scale = 1.0f);

// MLX affine weights [rows, cols * bits / 32] u32, scales and biases [rows, cols / group_size].
struct AffineRows {
  std::span<const std::byte> weight, scales, biases;
  std::uint32_t bits = 4, group_size = 64;
  DType scale_type = DType::f16;
};
Status pack_affine(const AffineRows& from, Format to, std::uint64_t rows, std::uint64_t cols,
                   std::span<std::byte> dst);

// Row `row` of a packed matrix with `cols` columns as f32; the same bits as dequantize() of the
// native blocks, times the scale of the row where the format has one. The format must be packed,
// cols whole blocks of it.
void unpack_row(Format format, const std::byte* matrix, std::uint64_t row, std::uint64_t cols,
                float* out) noexcept;

}  // namespace onepass::quant
