// q5_1: 32 values as 5-bit numbers with an f16 scale and an f16 minimum.
#ifndef ONEPASS_QUANT_Q5_1_H_
#define ONEPASS_QUANT_Q5_1_H_

#include "quant/q4_1.h"

namespace onepass::quant {

struct BlockQ5_1 {
  static constexpr int elements = 32;
  std::uint16_t d, m;   // f16
  std::uint8_t qh[4];   // fifth bit of element e: bit e, little-endian
  std::uint8_t qs[16];  // byte j: element j in the low bits, j + 16 in the high ones
};
static_assert(sizeof(BlockQ5_1) == 24);

// 0 .. 31
OP_FN int number_of(const BlockQ5_1& block, int e) {
  return (block.qs[e % 16] >> 4 * (e / 16) & 15) | (block.qh[e / 8] >> e % 8 & 1) << 4;
}

OP_FN void dequantize(const BlockQ5_1& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d), m = ops::op_f16_to_f32(block.m);
  for (int e = 0; e < 32; ++e) out[e] = static_cast<float>(number_of(block, e)) * d + m;
}

OP_FN void quantize(const float* x, BlockQ5_1& block, const float* importance = nullptr) {
  const Q1Line line = q1_line(x, importance, 31);
  const float inverse = inverse_or_zero(line.d);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(line.d));
  block.m = static_cast<std::uint16_t>(ops::op_f32_to_f16(line.m));
  for (int i = 0; i < 4; ++i) block.qh[i] = 0;
  for (int j = 0; j < 16; ++j) {
    const int low = round_to((x[j] - line.m) * inverse, 0, 31);
    const int high = round_to((x[j + 16] - line.m) * inverse, 0, 31);
    block.qs[j] = static_cast<std::uint8_t>((low & 15) | ((high & 15) << 4));
    block.qh[j / 8] = static_cast<std::uint8_t>(block.qh[j / 8] | (low >> 4) << (j % 8));
    block.qh[j / 8 + 2] = static_cast<std::uint8_t>(block.qh[j / 8 + 2] | (high >> 4) << (j % 8));
  }
}

using PackedQ5_1 = PackedQ1<BlockQ5_1, 5>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q5_1_H_
