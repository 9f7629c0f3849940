// q4_1: 32 values as 4-bit numbers with an f16 scale and an f16 minimum.
#ifndef ONEPASS_QUANT_Q4_1_H_
#define ONEPASS_QUANT_Q4_1_H_

#include "quant/fit.h"

namespace onepass::quant {

struct BlockQ4_1 {
  static constexpr int elements = 32;
  std::uint16_t d, m;   // f16
  std::uint8_t qs[16];  // byte j: element j in the low bits, j + 16 in the high ones
};
static_assert(sizeof(BlockQ4_1) == 20);

OP_FN void dequantize(const BlockQ4_1& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d), m = ops::op_f16_to_f32(block.m);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(block.qs[j] & 15) * d + m;
    out[j + 16] = static_cast<float>(block.qs[j] >> 4) * d + m;
  }
}

OP_FN void quantize(const float* x, BlockQ4_1& block) {
  const Range r = range_of(x, 32);
  const float d = (r.hi - r.lo) / 15.0f, inverse = inverse_or_zero(d);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(d));
  block.m = static_cast<std::uint16_t>(ops::op_f32_to_f16(r.lo));
  for (int j = 0; j < 16; ++j) {
    const int low = round_to((x[j] - r.lo) * inverse, 0, 15);
    const int high = round_to((x[j + 16] - r.lo) * inverse, 0, 15);
    block.qs[j] = static_cast<std::uint8_t>(low | (high << 4));
  }
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q4_1_H_
