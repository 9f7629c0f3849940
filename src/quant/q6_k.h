// q6_k: 256 values as 6-bit numbers around 32 in 16 sub-blocks with a signed scale each.
#ifndef ONEPASS_QUANT_Q6_K_H_
#define ONEPASS_QUANT_Q6_K_H_

#include "quant/r16.h"

namespace onepass::quant {

struct BlockQ6_K {
  static constexpr int elements = 256;
  std::uint8_t ql[128], qh[64];
  std::int8_t scales[16];
  std::uint16_t d;  // f16
};
static_assert(sizeof(BlockQ6_K) == 210);

// 0 .. 63
OP_FN int number_of(const BlockQ6_K& block, int e) {
  const int half = e / 128, s = e % 128 / 32, l = e % 32;
  const int low = block.ql[64 * half + 32 * (s % 2) + l] >> 4 * (s / 2) & 15;
  return low | (block.qh[32 * half + l] >> 2 * s & 3) << 4;
}

OP_FN void dequantize(const BlockQ6_K& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d);
  for (int e = 0; e < 256; ++e) {
    const float scale = d * static_cast<float>(block.scales[e / 16]);
    out[e] = scale * static_cast<float>(number_of(block, e) - 32);
  }
}

OP_FN int scale_of(const BlockQ6_K& block, int j) { return block.scales[j]; }

// q3_k and q6_k. Scales are [16][16] signed bytes.
template <class BlockT, int Bits, int Zero>
struct PackedFine {
  using Family = FineFamily<Bits, Zero>;
  using Block = BlockT;
  static constexpr std::size_t elements = 256, d = 0, scales = 32, numbers = 288;
  static constexpr std::size_t sub_bytes = 64 * Bits, bytes = numbers + 8 * sub_bytes;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + d + 2 * r, &block.d, 2);
    for (std::size_t j = 0; j < 16; ++j) {
      const int scale = scale_of(block, static_cast<int>(j));
      r16::at(dst, scales)[16 * j + r] = static_cast<std::uint8_t>(scale);
    }
    for (std::size_t j = 0; j < 8; ++j) {
      std::uint8_t* vectors = r16::at(dst, numbers + sub_bytes * j);
      for (std::size_t k = 0; k < 32; ++k) {
        r16::put<Bits>(vectors, r, k, number_of(block, static_cast<int>(32 * j + k)));
      }
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float scale = r16::f16_at(src, d, r);
    for (std::size_t e = 0; e < 256; ++e) {
      const std::uint8_t* vectors = r16::at(src, numbers + sub_bytes * (e / 32));
      const auto sub = static_cast<std::int8_t>(r16::at(src, scales)[16 * (e / 16) + r]);
      const int q = r16::get<Bits>(vectors, r, e % 32) - Zero;
      out[e] = scale * static_cast<float>(sub) * static_cast<float>(q);
    }
  }
};
using PackedQ6_K = PackedFine<BlockQ6_K, 6, 32>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q6_K_H_
