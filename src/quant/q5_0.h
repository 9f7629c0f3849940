// q5_0: 32 values as 5-bit numbers around 16 with one f16 scale.
#ifndef ONEPASS_QUANT_Q5_0_H_
#define ONEPASS_QUANT_Q5_0_H_

#include "quant/fit.h"

namespace onepass::quant {

struct BlockQ5_0 {
  static constexpr int elements = 32;
  std::uint16_t d;      // f16
  std::uint8_t qh[4];   // fifth bit of element e: bit e, little-endian
  std::uint8_t qs[16];  // byte j: element j in the low bits, j + 16 in the high ones
};
static_assert(sizeof(BlockQ5_0) == 22);

OP_FN void dequantize(const BlockQ5_0& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    const int low_bit = block.qh[j / 8] >> (j % 8) & 1;
    const int high_bit = block.qh[j / 8 + 2] >> (j % 8) & 1;
    out[j] = static_cast<float>(((block.qs[j] & 15) | low_bit << 4) - 16) * d;
    out[j + 16] = static_cast<float>(((block.qs[j] >> 4) | high_bit << 4) - 16) * d;
  }
}

// The element of largest magnitude becomes -16, so that the whole range is used.
OP_FN void quantize(const float* x, BlockQ5_0& block) {
  const float d = extreme_of(x, 32) / -16.0f, inverse = inverse_or_zero(d);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(d));
  for (int i = 0; i < 4; ++i) block.qh[i] = 0;
  for (int j = 0; j < 16; ++j) {
    const int low = round_to(x[j] * inverse, -16, 15) + 16;
    const int high = round_to(x[j + 16] * inverse, -16, 15) + 16;
    block.qs[j] = static_cast<std::uint8_t>((low & 15) | ((high & 15) << 4));
    block.qh[j / 8] = static_cast<std::uint8_t>(block.qh[j / 8] | (low >> 4) << (j % 8));
    block.qh[j / 8 + 2] = static_cast<std::uint8_t>(block.qh[j / 8 + 2] | (high >> 4) << (j % 8));
  }
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q5_0_H_
