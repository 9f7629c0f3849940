// q4_k: 256 values as 4-bit numbers in 8 sub-blocks with a scale and a minimum of 6 bits each.
#ifndef ONEPASS_QUANT_Q4_K_H_
#define ONEPASS_QUANT_Q4_K_H_

#include "ops/shared/scalar.h"

namespace onepass::quant {

struct BlockQ4_K {
  static constexpr int elements = 256;
  std::uint16_t d, dmin;    // f16
  std::uint8_t scales[12];  // see scale_of, minimum_of
  std::uint8_t qs[128];  // byte 32 p + l: element 64 p + l in the low bits, 32 further in the high
};
static_assert(sizeof(BlockQ4_K) == 144);

// The 6-bit scale and minimum of sub-block j of q4_k and q5_k.
OP_FN int scale_of(const std::uint8_t* scales, int j) {
  return j < 4 ? scales[j] & 63 : (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
}
OP_FN int minimum_of(const std::uint8_t* scales, int j) {
  return j < 4 ? scales[j + 4] & 63 : scales[j + 4] >> 4 | (scales[j] >> 6) << 4;
}

OP_FN int number_of(const BlockQ4_K& block, int e) {
  const int j = e / 32;
  return block.qs[32 * (j / 2) + e % 32] >> 4 * (j % 2) & 15;
}

OP_FN void dequantize(const BlockQ4_K& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d), dmin = ops::op_f16_to_f32(block.dmin);
  for (int j = 0; j < 8; ++j) {
    const float scale = d * static_cast<float>(scale_of(block.scales, j));
    const float minimum = dmin * static_cast<float>(minimum_of(block.scales, j));
    for (int e = 32 * j; e < 32 * j + 32; ++e) {
      out[e] = scale * static_cast<float>(number_of(block, e)) - minimum;
    }
  }
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q4_K_H_
