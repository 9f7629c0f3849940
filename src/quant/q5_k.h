// q5_k: q4_k with a fifth bit.
#ifndef ONEPASS_QUANT_Q5_K_H_
#define ONEPASS_QUANT_Q5_K_H_

#include "quant/q4_k.h"

namespace onepass::quant {

struct BlockQ5_K {
  static constexpr int elements = 256;
  std::uint16_t d, dmin;  // f16
  std::uint8_t scales[12];
  std::uint8_t qh[32];  // bit j of byte l: the fifth bit of element 32 j + l
  std::uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

OP_FN int number_of(const BlockQ5_K& block, int e) {
  const int j = e / 32;
  const int low = block.qs[32 * (j / 2) + e % 32] >> 4 * (j % 2) & 15;
  return low | (block.qh[e % 32] >> j & 1) << 4;
}

OP_FN void dequantize(const BlockQ5_K& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d), dmin = ops::op_f16_to_f32(block.dmin);
  for (int j = 0; j < 8; ++j) {
    const float scale = d * static_cast<float>(scale_of(block.scales, j));
    const float minimum = dmin * static_cast<float>(minimum_of(block.scales, j));
    for (int e = 32 * j; e < 32 * j + 32; ++e) {
      out[e] = scale * static_cast<float>(number_of(block, e)) - minimum;
    }
  }
}

using PackedQ5_K = PackedK<BlockQ5_K, 5>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q5_K_H_
