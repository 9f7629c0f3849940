// q3_k: 256 values as 3-bit numbers around 4; per 16 of them a 6-bit scale around 32.
#ifndef ONEPASS_QUANT_Q3_K_H_
#define ONEPASS_QUANT_Q3_K_H_

#include "quant/fit.h"
#include "quant/q6_k.h"

namespace onepass::quant {

struct BlockQ3_K {
  static constexpr int elements = 256;
  std::uint8_t hmask[32];   // byte l, bit 4 h + s: third bit of element 128 h + 32 s + l
  std::uint8_t qs[64];      // byte 32 h + l: elements 128 h + 32 s + l at bit 2 s
  std::uint8_t scales[12];  // low 4 bits of scales j and j + 8 in byte j, high 2 bits in 8 .. 11
  std::uint16_t d;          // f16
};
static_assert(sizeof(BlockQ3_K) == 110);

OP_FN int scale_of(const BlockQ3_K& block, int j) {
  const int low = j < 8 ? block.scales[j] & 15 : block.scales[j - 8] >> 4;
  const int high = block.scales[8 + j % 4] >> (2 * (j / 4)) & 3;
  return (low | high << 4) - 32;
}

// 0 .. 7
OP_FN int number_of(const BlockQ3_K& block, int e) {
  const int plane = e / 32, l = e % 32;
  return (block.qs[32 * (plane / 4) + l] >> 2 * (plane % 4) & 3) | (block.hmask[l] >> plane & 1)
                                                                       << 2;
}

OP_FN void dequantize(const BlockQ3_K& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d);
  for (int e = 0; e < 256; ++e) {
    const float scale = d * static_cast<float>(scale_of(block, e / 16));
    out[e] = scale * static_cast<float>(number_of(block, e) - 4);
  }
}

OP_FN void quantize(const float* x, BlockQ3_K& block, const float* importance = nullptr) {
  float fits[16];
  const float step = fit_scales(x, importance, -4, 3, 32, fits);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(step));
  const float d = ops::op_f16_to_f32(block.d), inverse_d = inverse_or_zero(d);
  for (int i = 0; i < 32; ++i) block.hmask[i] = 0;
  for (int i = 0; i < 64; ++i) block.qs[i] = 0;
  for (int i = 0; i < 12; ++i) block.scales[i] = 0;
  for (int j = 0; j < 16; ++j) {
    const int sc = round_to(fits[j] * inverse_d, -32, 31) + 32;
    std::uint8_t& low = block.scales[j % 8];
    low = static_cast<std::uint8_t>(low | (sc & 15) << (j < 8 ? 0 : 4));
    std::uint8_t& high = block.scales[8 + j % 4];
    high = static_cast<std::uint8_t>(high | (sc >> 4) << (2 * (j / 4)));

    const float inverse = inverse_or_zero(d * static_cast<float>(sc - 32));
    std::uint8_t* qs = block.qs + 32 * (j / 8) + 16 * (j % 2);
    std::uint8_t* hmask = block.hmask + 16 * (j % 2);
    const int plane = j / 2, shift = 2 * (plane % 4);
    for (int l = 0; l < 16; ++l) {
      const int q = round_to(x[16 * j + l] * inverse, -4, 3) + 4;
      qs[l] = static_cast<std::uint8_t>(qs[l] | (q & 3) << shift);
      hmask[l] = static_cast<std::uint8_t>(hmask[l] | (q >> 2) << plane);
    }
  }
}

using PackedQ3_K = PackedFine<BlockQ3_K, 3, 4>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q3_K_H_
