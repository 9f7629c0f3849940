// q2_k: 256 values as 2-bit numbers; per 16 of them a 4-bit scale and a 4-bit offset.
#ifndef ONEPASS_QUANT_Q2_K_H_
#define ONEPASS_QUANT_Q2_K_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

struct BlockQ2_K {
  static constexpr int elements = 256;
  std::uint8_t scales[16];  // of 16 elements each: scale in the low bits, offset in the high ones
  std::uint8_t qs[64];      // byte 32 h + l: elements 128 h + 32 s + l at bit 2 s
  std::uint16_t d, dmin;    // f16, of the scales and the offsets
};
static_assert(sizeof(BlockQ2_K) == 84);

OP_FN int number_of(const BlockQ2_K& block, int e) {
  return block.qs[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3;
}

OP_FN void dequantize(const BlockQ2_K& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d), dmin = ops::op_f16_to_f32(block.dmin);
  for (int e = 0; e < 256; ++e) {
    const float scale = d * static_cast<float>(block.scales[e / 16] & 15);
    const float offset = dmin * static_cast<float>(block.scales[e / 16] >> 4);
    out[e] = scale * static_cast<float>(number_of(block, e)) - offset;
  }
}

OP_FN void quantize(const float* x, BlockQ2_K& block, const float* importance = nullptr) {
  Affine fits[16];
  const Steps steps = fit_parts<16>(x, importance, 0.0f, 3, 15, fits);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(steps.scale));
  block.dmin = static_cast<std::uint16_t>(ops::op_f32_to_f16(steps.offset));
  const float d = ops::op_f16_to_f32(block.d), dmin = ops::op_f16_to_f32(block.dmin);
  const float inverse_d = inverse_or_zero(d), inverse_dmin = inverse_or_zero(dmin);
  for (int i = 0; i < 64; ++i) block.qs[i] = 0;
  for (int j = 0; j < 16; ++j) {
    const int sc = round_to(fits[j].scale * inverse_d, 0, 15);
    const int m = round_to(fits[j].offset * inverse_dmin, 0, 15);
    block.scales[j] = static_cast<std::uint8_t>(sc | m << 4);
    const float inverse = inverse_or_zero(d * static_cast<float>(sc));
    const float offset = dmin * static_cast<float>(m);
    std::uint8_t* qs = block.qs + 32 * (j / 8) + 16 * (j % 2);
    const int shift = 2 * (j % 8 / 2);
    for (int l = 0; l < 16; ++l) {
      const int q = round_to((x[16 * j + l] + offset) * inverse, 0, 3);
      qs[l] = static_cast<std::uint8_t>(qs[l] | q << shift);
    }
  }
}

// Scales are [16][16] bytes as in the block.
struct PackedQ2_K {
  using Family = FineKFamily<2>;
  using Block = BlockQ2_K;
  static constexpr std::size_t elements = 256, d = 0, dmin = 32, scales = 64, numbers = 320;
  static constexpr std::size_t sub_bytes = 128, bytes = numbers + 8 * sub_bytes;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + d + 2 * r, &block.d, 2);
    std::memcpy(dst + dmin + 2 * r, &block.dmin, 2);
    for (std::size_t j = 0; j < 16; ++j) r16::at(dst, scales)[16 * j + r] = block.scales[j];
    for (std::size_t e = 0; e < 256; ++e) {
      std::uint8_t* vectors = r16::at(dst, numbers + sub_bytes * (e / 32));
      r16::put<2>(vectors, r, e % 32, number_of(block, static_cast<int>(e)));
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    for (std::size_t e = 0; e < 256; ++e) {
      const std::uint8_t both = r16::at(src, scales)[16 * (e / 16) + r];
      const float scale = r16::f16_at(src, d, r) * static_cast<float>(both & 15);
      const float offset = r16::f16_at(src, dmin, r) * static_cast<float>(both >> 4);
      const std::uint8_t* vectors = r16::at(src, numbers + sub_bytes * (e / 32));
      out[e] = scale * static_cast<float>(r16::get<2>(vectors, r, e % 32)) - offset;
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q2_K_H_
