// q2_0: 64 values as 2-bit numbers around 1 with one f16 scale.
#ifndef ONEPASS_QUANT_Q2_0_H_
#define ONEPASS_QUANT_Q2_0_H_

#include "quant/tq2_0.h"

namespace onepass::quant {

struct BlockQ2_0 {
  static constexpr int elements = 64;
  std::uint16_t d;      // f16
  std::uint8_t qs[16];  // element e at bit 2 (e % 4) of byte e / 4
};
static_assert(sizeof(BlockQ2_0) == 18);

// 0 .. 3
OP_FN int number_of(const BlockQ2_0& block, int e) { return block.qs[e / 4] >> 2 * (e % 4) & 3; }

OP_FN float value_of(const BlockQ2_0& block, int e) {
  return static_cast<float>(number_of(block, e) - 1) * ops::op_f16_to_f32(block.d);
}

OP_FN void dequantize(const BlockQ2_0& block, float* out) {
  for (int e = 0; e < 64; ++e) out[e] = value_of(block, e);
}

OP_FN void quantize(const float* x, BlockQ2_0& block) {
  float weights[64];
  for (float& w : weights) w = 1.0f;
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(fit_scale(x, weights, 64, -1, 2)));
  const float inverse = inverse_or_zero(ops::op_f16_to_f32(block.d));
  for (int i = 0; i < 16; ++i) {
    int byte = 0;
    for (int j = 0; j < 4; ++j) byte |= (round_to(x[4 * i + j] * inverse, -1, 2) + 1) << 2 * j;
    block.qs[i] = static_cast<std::uint8_t>(byte);
  }
}

using PackedQ2_0 = PackedWide<BlockQ2_0, 2, 1>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q2_0_H_
