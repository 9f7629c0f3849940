// MLX affine weights: a row is a little-endian stream of numbers of 2 to 8 bits, and per group of
// 32, 64 or 128 along the row a scale and a bias: w = q * scale + bias.
#ifndef ONEPASS_QUANT_AFFINE_H_
#define ONEPASS_QUANT_AFFINE_H_

#include "quant/fit.h"

namespace onepass::quant {

// Which of them there are.
OP_FN bool is_affine_bits(std::uint32_t n) {
  return n == 2 || n == 3 || n == 4 || n == 6 || n == 8;
}
OP_FN bool is_affine_group(std::uint32_t size) { return size == 32 || size == 64 || size == 128; }
inline constexpr char affine_bits_names[] = "2, 3, 4, 6 or 8";
inline constexpr char affine_group_names[] = "32, 64 or 128";

// 8 numbers of Bits bits from Bits bytes.
template <int Bits>
OP_FN void affine_unpack_8(const std::uint8_t* bytes, float* out) {
  std::uint64_t word = 0;
  for (int j = 0; j < Bits; ++j) word |= static_cast<std::uint64_t>(bytes[j]) << (8 * j);
  for (int j = 0; j < 8; ++j) {
    out[j] =
        static_cast<float>(static_cast<std::uint32_t>(word >> (Bits * j)) & ((1u << Bits) - 1u));
  }
}

// One group: n numbers, a multiple of 8, starting at a byte.
template <int Bits>
OP_FN void affine_dequantize(const std::uint8_t* bytes, int n, float scale, float bias,
                             float* out) {
  for (int i = 0; i < n; i += 8) {
    affine_unpack_8<Bits>(bytes + i / 8 * Bits, out + i);
    for (int j = 0; j < 8; ++j) out[i + j] = out[i + j] * scale + bias;
  }
}

OP_FN void affine_dequantize(int bits, const std::uint8_t* bytes, int n, float scale, float bias,
                             float* out) {
  switch (bits) {
    case 2:
      return affine_dequantize<2>(bytes, n, scale, bias, out);
    case 3:
      return affine_dequantize<3>(bytes, n, scale, bias, out);
    case 4:
      return affine_dequantize<4>(bytes, n, scale, bias, out);
    case 5:
      return affine_dequantize<5>(bytes, n, scale, bias, out);
    case 6:
      return affine_dequantize<6>(bytes, n, scale, bias, out);
    default:
      return affine_dequantize<8>(bytes, n, scale, bias, out);
  }
}

// Scale and bias of a group as MLX chooses them: the end of the range with the larger magnitude is
// exact, and the scale is negative where that is the upper end.
struct AffineGroup {
  float scale, bias;
};
OP_FN AffineGroup affine_fit(const float* x, int n, int bits) {
  const float top = static_cast<float>((1 << bits) - 1);
  const Range r = range_of(x, n);
  float scale = (r.hi - r.lo) / top;
  scale = scale > 1e-7f ? scale : 1e-7f;
  const bool low = magnitude(r.lo) > magnitude(r.hi);
  if (!low) scale = -scale;
  const float edge = low ? r.lo : r.hi;
  const float q0 = static_cast<float>(round_to(edge / scale, -(1 << 30), 1 << 30));
  if (q0 == 0.0f) return {scale, 0.0f};
  return {edge / q0, edge};
}

// Writes n numbers, a multiple of 8, and gives back their scale and bias.
OP_FN AffineGroup affine_quantize(int bits, const float* x, int n, std::uint8_t* bytes) {
  const AffineGroup g = affine_fit(x, n, bits);
  for (int i = 0; i < n; i += 8) {
    std::uint64_t word = 0;
    for (int j = 0; j < 8; ++j) {
      const int q = round_to((x[i + j] - g.bias) / g.scale, 0, (1 << bits) - 1);
      word |= static_cast<std::uint64_t>(q) << (bits * j);
    }
    for (int j = 0; j < bits; ++j) {
      bytes[i / 8 * bits + j] = static_cast<std::uint8_t>(word >> (8 * j));
    }
  }
  return g;
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_AFFINE_H_
