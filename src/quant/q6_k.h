// q6_k: 256 values as 6-bit numbers around 32 in 16 sub-blocks with a signed scale each.
#ifndef ONEPASS_QUANT_Q6_K_H_
#define ONEPASS_QUANT_Q6_K_H_

#include "ops/shared/scalar.h"

namespace onepass::quant {

struct BlockQ6_K {
  static constexpr int elements = 256;
  std::uint8_t ql[128], qh[64];
  std::int8_t scales[16];
  std::uint16_t d;  // f16
};
static_assert(sizeof(BlockQ6_K) == 210);

// 0 .. 63
OP_FN int number_of(const BlockQ6_K& block, int e) {
  const int half = e / 128, s = e % 128 / 32, l = e % 32;
  const int low = block.ql[64 * half + 32 * (s % 2) + l] >> 4 * (s / 2) & 15;
  return low | (block.qh[32 * half + l] >> 2 * s & 3) << 4;
}

OP_FN void dequantize(const BlockQ6_K& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d);
  for (int e = 0; e < 256; ++e) {
    const float scale = d * static_cast<float>(block.scales[e / 16]);
    out[e] = scale * static_cast<float>(number_of(block, e) - 32);
  }
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q6_K_H_
