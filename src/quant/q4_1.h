// q4_1: 32 values as 4-bit numbers with an f16 scale and an f16 minimum.
#ifndef ONEPASS_QUANT_Q4_1_H_
#define ONEPASS_QUANT_Q4_1_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

struct BlockQ4_1 {
  static constexpr int elements = 32;
  std::uint16_t d, m;   // f16
  std::uint8_t qs[16];  // byte j: element j in the low bits, j + 16 in the high ones
};
static_assert(sizeof(BlockQ4_1) == 20);

// 0 .. 15
OP_FN int number_of(const BlockQ4_1& block, int e) { return block.qs[e % 16] >> 4 * (e / 16) & 15; }

OP_FN void dequantize(const BlockQ4_1& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d), m = ops::op_f16_to_f32(block.m);
  for (int e = 0; e < 32; ++e) out[e] = static_cast<float>(number_of(block, e)) * d + m;
}

// d and m of 32 numbers up to `top`; without importance they cover the range exactly.
struct Q1Line {
  float d, m;
};
OP_FN Q1Line q1_line(const float* x, const float* importance, int top) {
  if (importance == nullptr) {
    const Range r = range_of(x, 32);
    return {(r.hi - r.lo) / static_cast<float>(top), r.lo};
  }
  float weights[32];
  weigh(x, importance, 32, root_mean_square(x, 32), weights);
  const Affine fit = fit_affine(x, weights, 32, top);
  return {fit.scale, -fit.offset};
}

OP_FN void quantize(const float* x, BlockQ4_1& block, const float* importance = nullptr) {
  const Q1Line line = q1_line(x, importance, 15);
  const float inverse = inverse_or_zero(line.d);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(line.d));
  block.m = static_cast<std::uint16_t>(ops::op_f32_to_f16(line.m));
  for (int j = 0; j < 16; ++j) {
    const int low = round_to((x[j] - line.m) * inverse, 0, 15);
    const int high = round_to((x[j + 16] - line.m) * inverse, 0, 15);
    block.qs[j] = static_cast<std::uint8_t>(low | (high << 4));
  }
}

// q4_1 and q5_1; their minima are the biases of the family.
template <class BlockT, int Bits>
struct PackedQ1 {
  using Family = AffineFamily<Bits, F16Bits>;
  using Block = BlockT;
  static constexpr std::size_t elements = 32, scales = 0, biases = 32, numbers = 64;
  static constexpr std::size_t sub_bytes = 64 * Bits, bytes = 64 + sub_bytes;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    std::memcpy(dst + biases + 2 * r, &block.m, 2);
    for (std::size_t k = 0; k < 32; ++k) {
      r16::put<Bits>(r16::at(dst, numbers), r, k, number_of(block, static_cast<int>(k)));
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = r16::f16_at(src, scales, r), m = r16::f16_at(src, biases, r);
    for (std::size_t k = 0; k < 32; ++k) {
      out[k] = static_cast<float>(r16::get<Bits>(r16::at(src, numbers), r, k)) * d + m;
    }
  }
};
using PackedQ4_1 = PackedQ1<BlockQ4_1, 4>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q4_1_H_
