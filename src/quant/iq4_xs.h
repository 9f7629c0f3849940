// iq4_xs: 256 values as indices into iq4_nl's table; per 32 of them a 6-bit scale around 32.
#ifndef ONEPASS_QUANT_IQ4_XS_H_
#define ONEPASS_QUANT_IQ4_XS_H_

#include "quant/iq4_nl.h"

namespace onepass::quant {

struct BlockIQ4_XS {
  static constexpr int elements = 256;
  std::uint16_t d;           // f16
  std::uint16_t scales_h;    // bits 2 i, 2 i + 1: high bits of scale i
  std::uint8_t scales_l[4];  // low 4 bits, scale 2 i in the low half of byte i
  std::uint8_t qs[128];      // per 32 elements 16 bytes as in iq4_nl
};
static_assert(sizeof(BlockIQ4_XS) == 136);

OP_FN int scale_of(const BlockIQ4_XS& block, int i) {
  const int low = block.scales_l[i / 2] >> (4 * (i % 2)) & 15;
  return (low | (block.scales_h >> (2 * i) & 3) << 4) - 32;
}

OP_FN void dequantize(const BlockIQ4_XS& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d);
  for (int i = 0; i < 8; ++i) {
    const float scale = d * static_cast<float>(scale_of(block, i));
    for (int j = 0; j < 16; ++j) {
      const int q = block.qs[16 * i + j];
      out[32 * i + j] = scale * static_cast<float>(iq4_value(q & 15));
      out[32 * i + j + 16] = scale * static_cast<float>(iq4_value(q >> 4));
    }
  }
}

OP_FN void quantize(const float* x, BlockIQ4_XS& block, const float* importance = nullptr) {
  float fits[8];
  const float floor = root_mean_square(x, 256);
  for (int i = 0; i < 8; ++i) fits[i] = iq4_fit(x + 32 * i, part_of(importance, 32 * i), floor);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(extreme_of(fits, 8) / -32.0f));
  const float d = ops::op_f16_to_f32(block.d), inverse_d = inverse_or_zero(d);
  int scales_h = 0;
  for (int i = 0; i < 4; ++i) block.scales_l[i] = 0;
  for (int i = 0; i < 8; ++i) {
    const int sc = round_to(fits[i] * inverse_d, -32, 31) + 32;
    block.scales_l[i / 2] =
        static_cast<std::uint8_t>(block.scales_l[i / 2] | (sc & 15) << (4 * (i % 2)));
    scales_h |= (sc >> 4) << (2 * i);
    const float inverse = inverse_or_zero(d * static_cast<float>(sc - 32));
    for (int j = 0; j < 16; ++j) {
      const float* y = x + 32 * i + j;
      block.qs[16 * i + j] =
          static_cast<std::uint8_t>(iq4_index(y[0] * inverse) | iq4_index(y[16] * inverse) << 4);
    }
  }
  block.scales_h = static_cast<std::uint16_t>(scales_h);
}

// Scales are [8][16] signed bytes.
struct PackedIQ4_XS {
  using Family = CodebookFamily<iq4_codebook>;
  using Block = BlockIQ4_XS;
  static constexpr std::size_t elements = 256, d = 0, scales = 32, numbers = 160;
  static constexpr std::size_t sub_bytes = 256, bytes = numbers + 8 * sub_bytes;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + d + 2 * r, &block.d, 2);
    for (std::size_t i = 0; i < 8; ++i) {
      const int scale = scale_of(block, static_cast<int>(i));
      r16::at(dst, scales)[16 * i + r] = static_cast<std::uint8_t>(scale);
      r16::put_halves(r16::at(dst, numbers + sub_bytes * i), r, block.qs + 16 * i);
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    for (std::size_t e = 0; e < 256; ++e) {
      const auto sub = static_cast<std::int8_t>(r16::at(src, scales)[16 * (e / 32) + r]);
      const float scale = r16::f16_at(src, d, r) * static_cast<float>(sub);
      const std::uint8_t* vectors = r16::at(src, numbers + sub_bytes * (e / 32));
      out[e] = scale * static_cast<float>(iq4_value(r16::get<4>(vectors, r, e % 32)));
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_IQ4_XS_H_
