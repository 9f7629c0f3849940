// q5_0: 32 values as 5-bit numbers around 16 with one f16 scale.
#ifndef ONEPASS_QUANT_Q5_0_H_
#define ONEPASS_QUANT_Q5_0_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

struct BlockQ5_0 {
  static constexpr int elements = 32;
  std::uint16_t d;      // f16
  std::uint8_t qh[4];   // fifth bit of element e: bit e, little-endian
  std::uint8_t qs[16];  // byte j: element j in the low bits, j + 16 in the high ones
};
static_assert(sizeof(BlockQ5_0) == 22);

// 0 .. 31
OP_FN int number_of(const BlockQ5_0& block, int e) {
  return (block.qs[e % 16] >> 4 * (e / 16) & 15) | (block.qh[e / 8] >> e % 8 & 1) << 4;
}

OP_FN void dequantize(const BlockQ5_0& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d);
  for (int e = 0; e < 32; ++e) out[e] = static_cast<float>(number_of(block, e) - 16) * d;
}

// Without importance the element of largest magnitude becomes -16, so that the whole range is used.
OP_FN void quantize(const float* x, BlockQ5_0& block, const float* importance = nullptr) {
  float d = extreme_of(x, 32) / -16.0f;
  if (importance != nullptr) d = fit_important(x, importance, 32, -16, 15);
  const float inverse = inverse_or_zero(d);
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

struct PackedQ5_0 {
  using Family = SymmetricFamily<5, 16>;
  using Block = BlockQ5_0;
  static constexpr std::size_t elements = 32, scales = 0, numbers = 32, bytes = 32 + 320;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    for (std::size_t k = 0; k < 32; ++k) {
      r16::put<5>(r16::at(dst, numbers), r, k, number_of(block, static_cast<int>(k)));
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = r16::f16_at(src, scales, r);
    for (std::size_t k = 0; k < 32; ++k) {
      out[k] = static_cast<float>(r16::get<5>(r16::at(src, numbers), r, k) - 16) * d;
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q5_0_H_
