// Weights packed for the CPU kernels: blocks of 16 rows interleaved, one group of 16 rows after
// the other, within a group one block after the other along k.
//
//   ONEPASS_TRY(quant::pack(DType::q4_0, DType::q4_0_r16, n, k, file_bytes, buffer_bytes));
//
// Byte 4 r + j of a vector of 64 bytes belongs to row r of the group. Numbers of 4 bits: vector v
// of 32 values along k holds value 4 v + j in the low bits and 16 + 4 v + j in the high ones; of 8
// bits: value 4 v + j. Scales are one per row, f16 unless said otherwise. Rows beyond the matrix
// are zero bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "onepass/dtype.h"
#include "onepass/result.h"

namespace onepass::quant {

inline constexpr std::size_t group_rows = 16;

// Offsets in bytes inside one packed block of `elements` values along k.
template <class T>
struct PackedFloat {  // [32][16], rows fastest
  static constexpr std::size_t elements = 32, bytes = 32 * 16 * sizeof(T);
};
struct PackedQ4_0 {
  static constexpr std::size_t elements = 32, scales = 0, numbers = 32, bytes = 32 + 256;
};
struct PackedQ8_0 {  // bytes are the number + 128
  static constexpr std::size_t elements = 32, scales = 0, numbers = 32, bytes = 32 + 512;
};
// Sub-blocks of 32 values; their scales and minima are [8][16] bytes.
struct PackedQ4_K {
  static constexpr std::size_t elements = 256, d = 0, dmin = 32, scales = 64, minima = 192;
  static constexpr std::size_t numbers = 320, sub_bytes = 256, bytes = 320 + 8 * 256;
};
// After the vectors of a sub-block one more: bit v of byte 4 r + j is the fifth bit of 4 v + j.
struct PackedQ5_K {
  static constexpr std::size_t elements = 256, d = 0, dmin = 32, scales = 64, minima = 192;
  static constexpr std::size_t numbers = 320, high = 256, sub_bytes = 320, bytes = 320 + 8 * 320;
};
// Scales are [16][16] signed bytes. After the vectors of 32 values two more: bits 2 t and 2 t + 1
// of byte 4 r + j of vector p are the upper two bits of value 16 p + 4 t + j.
struct PackedQ6_K {
  static constexpr std::size_t elements = 256, d = 0, scales = 32;
  static constexpr std::size_t numbers = 288, high = 256, sub_bytes = 384, bytes = 288 + 8 * 384;
};
// Two times 32 numbers of Bits bits; scales and biases are f16 or bf16.
template <int Bits>
struct PackedAffine {
  static constexpr std::size_t elements = 64, scales = 0, biases = 32, numbers = 64;
  static constexpr std::size_t sub_bytes = 64 * Bits, bytes = 64 + 2 * sub_bytes;
};

// interleaved: *_r16, described here; split: *_s16, described in quant/split.h.
enum class Layout : std::uint8_t { interleaved, split };

// The packed form of a format, where there is one. Rows must be whole blocks of that form.
std::optional<DType> packed_format(DType native, Layout layout = Layout::interleaved) noexcept;
// The packed form of MLX affine weights: 4 or 8 bits, groups of 64 or 128, scales f16 or bf16.
std::optional<DType> packed_affine_format(std::uint32_t bits, std::uint32_t group_size,
                                          DType scale_type,
                                          Layout layout = Layout::interleaved) noexcept;

// Packs rows of `from`, as they are in a file, into the packed format `to`. A matrix may be packed
// in parts of 16 rows: what n rows need lies storage_bytes(to, n, cols) bytes after the start.
Status pack(DType from, DType to, std::uint64_t rows, std::uint64_t cols,
            std::span<const std::byte> src, std::span<std::byte> dst);

// MLX affine weights [rows, cols * bits / 32] u32, scales and biases [rows, cols / group_size].
struct AffineRows {
  std::span<const std::byte> weight, scales, biases;
  std::uint32_t bits = 4, group_size = 64;
  DType scale_type = DType::f16;
};
Status pack_affine(const AffineRows& from, DType to, std::uint64_t rows, std::uint64_t cols,
                   std::span<std::byte> dst);

// Row `row` of a packed matrix with `cols` columns as f32; the same bits as dequantize() of the
// native blocks. The format must be packed, cols whole blocks of it.
void unpack_row(DType type, const std::byte* matrix, std::uint64_t row, std::uint64_t cols,
                float* out) noexcept;

}  // namespace onepass::quant
