// q8_0: 32 signed bytes with one f16 scale.
#ifndef ONEPASS_QUANT_Q8_0_H_
#define ONEPASS_QUANT_Q8_0_H_

#include "quant/r16.h"

namespace onepass::quant {

struct BlockQ8_0 {
  static constexpr int elements = 32;
  std::uint16_t d;  // f16
  std::int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

OP_FN void dequantize(const BlockQ8_0& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(block.qs[j]) * d;
}

// Halves round away from zero.
OP_FN void quantize(const float* x, BlockQ8_0& block) {
  float largest = 0.0f;
  for (int i = 0; i < 32; ++i) {
    const float a = x[i] < 0.0f ? -x[i] : x[i];
    if (a > largest) largest = a;
  }
  const float d = largest / 127.0f;
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(d));
  for (int i = 0; i < 32; ++i) {
    float t = x[i] * inverse;
    t = t > -127.0f ? t : -127.0f;  // NaN becomes -127 rather than undefined
    t = t < 127.0f ? t : 127.0f;
    block.qs[i] = static_cast<std::int8_t>(t < 0.0f ? t - 0.5f : t + 0.5f);
  }
}

// Bytes are the number + 128.
struct PackedQ8_0 {
  using Family = SymmetricFamily<8, 128>;
  using Block = BlockQ8_0;
  static constexpr std::size_t elements = 32, scales = 0, numbers = 32, bytes = 32 + 512;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    for (std::size_t k = 0; k < 32; ++k) {
      r16::put<8>(r16::at(dst, numbers), r, k, block.qs[k] + 128);
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = r16::f16_at(src, scales, r);
    for (std::size_t k = 0; k < 32; ++k) {
      out[k] = static_cast<float>(r16::get<8>(r16::at(src, numbers), r, k) - 128) * d;
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q8_0_H_
