// q1_0: 128 values as signs with one f16 scale.
#ifndef ONEPASS_QUANT_Q1_0_H_
#define ONEPASS_QUANT_Q1_0_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

struct BlockQ1_0 {
  static constexpr int elements = 128;
  std::uint16_t d;      // f16
  std::uint8_t qs[16];  // bit e: 1 for d, 0 for -d
};
static_assert(sizeof(BlockQ1_0) == 18);

// 0 or 1
OP_FN int number_of(const BlockQ1_0& block, int e) { return block.qs[e / 8] >> e % 8 & 1; }

OP_FN float value_of(const BlockQ1_0& block, int e) {
  return static_cast<float>(2 * number_of(block, e) - 1) * ops::op_f16_to_f32(block.d);
}

OP_FN void dequantize(const BlockQ1_0& block, float* out) {
  for (int e = 0; e < 128; ++e) out[e] = value_of(block, e);
}

// The mean magnitude is the scale with the smallest squared error.
OP_FN void quantize(const float* x, BlockQ1_0& block) {
  float sum = 0.0f;
  for (int e = 0; e < 128; ++e) sum += magnitude(x[e]);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(sum / 128.0f));
  for (int i = 0; i < 16; ++i) {
    int byte = 0;
    for (int j = 0; j < 8; ++j) byte |= (x[8 * i + j] >= 0.0f ? 1 : 0) << j;
    block.qs[i] = static_cast<std::uint8_t>(byte);
  }
}

struct PackedQ1_0 {
  using Family = SignFamily;
  using Block = BlockQ1_0;
  static constexpr std::size_t elements = 128, scales = 0, numbers = 32, bytes = 32 + 4 * 64;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    for (std::size_t e = 0; e < 128; ++e) {
      r16::put<1>(r16::at(dst, numbers + 64 * (e / 32)), r, e % 32,
                  number_of(block, static_cast<int>(e)));
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = r16::f16_at(src, scales, r);
    for (std::size_t e = 0; e < 128; ++e) {
      const std::uint8_t* vectors = r16::at(src, numbers + 64 * (e / 32));
      out[e] = static_cast<float>(2 * r16::get<1>(vectors, r, e % 32) - 1) * d;
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q1_0_H_
