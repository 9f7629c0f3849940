// q4_0: 32 values as 4-bit numbers around 8 with one f16 scale.
#ifndef ONEPASS_QUANT_Q4_0_H_
#define ONEPASS_QUANT_Q4_0_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

struct BlockQ4_0 {
  static constexpr int elements = 32;
  std::uint16_t d;      // f16
  std::uint8_t qs[16];  // byte j: element j in the low bits, j + 16 in the high ones
};
static_assert(sizeof(BlockQ4_0) == 18);

OP_FN void dequantize(const BlockQ4_0& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>((block.qs[j] & 15) - 8) * d;
    out[j + 16] = static_cast<float>((block.qs[j] >> 4) - 8) * d;
  }
}

// Without importance the element of largest magnitude becomes -8, so that the whole range is used.
OP_FN void quantize(const float* x, BlockQ4_0& block, const float* importance = nullptr) {
  float d = extreme_of(x, 32) / -8.0f;
  if (importance != nullptr) d = fit_important(x, importance, 32, -8, 7);
  const float inverse = inverse_or_zero(d);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(d));
  for (int j = 0; j < 16; ++j) {
    int q[2];
    for (int h = 0; h < 2; ++h) {
      float t = x[j + 16 * h] * inverse + 8.5f;
      t = t > 0.0f ? t : 0.0f;  // also what is not a number
      q[h] = t < 15.0f ? static_cast<int>(t) : 15;
    }
    block.qs[j] = static_cast<std::uint8_t>(q[0] | (q[1] << 4));
  }
}

struct PackedQ4_0 {
  using Family = SymmetricFamily<4, 8>;
  using Block = BlockQ4_0;
  static constexpr std::size_t elements = 32, scales = 0, numbers = 32, bytes = 32 + 256;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    r16::put_halves(r16::at(dst, numbers), r, block.qs);
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = r16::f16_at(src, scales, r);
    for (std::size_t k = 0; k < 32; ++k) {
      out[k] = static_cast<float>(r16::get<4>(r16::at(src, numbers), r, k) - 8) * d;
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q4_0_H_
