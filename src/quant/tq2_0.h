// tq2_0: 256 values as -1, 0 or 1 (a code of 2 bits around 1) with one f16 scale.
#ifndef ONEPASS_QUANT_TQ2_0_H_
#define ONEPASS_QUANT_TQ2_0_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

struct BlockTQ2_0 {
  static constexpr int elements = 256;
  std::uint8_t qs[64];  // byte 32 h + l: elements 128 h + 32 s + l at bit 2 s
  std::uint16_t d;      // f16
};
static_assert(sizeof(BlockTQ2_0) == 66);

// 0 .. 3
OP_FN int number_of(const BlockTQ2_0& block, int e) {
  return block.qs[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3;
}

OP_FN float value_of(const BlockTQ2_0& block, int e) {
  return static_cast<float>(number_of(block, e) - 1) * ops::op_f16_to_f32(block.d);
}

OP_FN void dequantize(const BlockTQ2_0& block, float* out) {
  for (int e = 0; e < 256; ++e) out[e] = value_of(block, e);
}

// x ~ scale * q with q in -1, 0, 1: of the thresholds below which a number is 0, the least squares
// fit with the smallest error.
OP_FN float fit_ternary(const float* x, int n) {
  const float top = magnitude(extreme_of(x, n));
  float best_scale = 0.0f, best_gain = 0.0f;
  for (int step = 0; step < 24; ++step) {
    const float threshold = top * (static_cast<float>(step) / 24.0f);
    float sum = 0.0f, count = 0.0f;
    for (int i = 0; i < n; ++i) {
      const float size = magnitude(x[i]);
      sum += size > threshold ? size : 0.0f;
      count += size > threshold ? 1.0f : 0.0f;
    }
    // The squared error falls by sum^2 / count.
    if (count > 0.0f && sum * (sum / count) > best_gain) {
      best_gain = sum * (sum / count);
      best_scale = sum / count;
    }
  }
  return best_scale;
}

OP_FN void quantize(const float* x, BlockTQ2_0& block) {
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(fit_ternary(x, 256)));
  const float inverse = inverse_or_zero(ops::op_f16_to_f32(block.d));
  for (int i = 0; i < 64; ++i) block.qs[i] = 0;
  for (int e = 0; e < 256; ++e) {
    std::uint8_t& byte = block.qs[32 * (e / 128) + e % 32];
    const int q = round_to(x[e] * inverse, -1, 1) + 1;
    byte = static_cast<std::uint8_t>(byte | q << 2 * (e % 128 / 32));
  }
}

// Numbers of N bits around Zero with one scale per block.
template <class BlockT, int N, int Zero>
struct PackedWide {
  using Family = SymmetricFamily<N, Zero>;
  using Block = BlockT;
  static constexpr std::size_t elements = Block::elements, scales = 0, numbers = 32;
  static constexpr std::size_t sub_bytes = 64 * N, bytes = numbers + elements / 32 * sub_bytes;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    for (std::size_t e = 0; e < elements; ++e) {
      r16::put<N>(r16::at(dst, numbers + sub_bytes * (e / 32)), r, e % 32,
                  number_of(block, static_cast<int>(e)));
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = r16::f16_at(src, scales, r);
    for (std::size_t e = 0; e < elements; ++e) {
      const std::uint8_t* vectors = r16::at(src, numbers + sub_bytes * (e / 32));
      out[e] = static_cast<float>(r16::get<N>(vectors, r, e % 32) - Zero) * d;
    }
  }
};
using PackedTQ2_0 = PackedWide<BlockTQ2_0, 2, 1>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_TQ2_0_H_
