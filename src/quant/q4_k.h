// q4_k: 256 values as 4-bit numbers in 8 sub-blocks with a scale and a minimum of 6 bits each.
#ifndef ONEPASS_QUANT_Q4_K_H_
#define ONEPASS_QUANT_Q4_K_H_

#include "quant/r16.h"

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

// Sub-blocks of 32 values; their scales and minima are [8][16] bytes.
template <class BlockT, int Bits>
struct PackedK {
  using Family = KFamily<Bits>;
  using Block = BlockT;
  static constexpr std::size_t elements = 256, d = 0, dmin = 32, scales = 64, minima = 192;
  static constexpr std::size_t numbers = 320, sub_bytes = 64 * Bits;
  static constexpr std::size_t bytes = numbers + 8 * sub_bytes;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + d + 2 * r, &block.d, 2);
    std::memcpy(dst + dmin + 2 * r, &block.dmin, 2);
    for (std::size_t j = 0; j < 8; ++j) {
      const int sub = static_cast<int>(j);
      r16::at(dst, scales)[16 * j + r] = static_cast<std::uint8_t>(scale_of(block.scales, sub));
      r16::at(dst, minima)[16 * j + r] = static_cast<std::uint8_t>(minimum_of(block.scales, sub));
      std::uint8_t* vectors = r16::at(dst, numbers + sub_bytes * j);
      for (std::size_t k = 0; k < 32; ++k) {
        r16::put<Bits>(vectors, r, k, number_of(block, 32 * sub + static_cast<int>(k)));
      }
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    for (std::size_t j = 0; j < 8; ++j) {
      const float scale =
          r16::f16_at(src, d, r) * static_cast<float>(r16::at(src, scales)[16 * j + r]);
      const float minimum =
          r16::f16_at(src, dmin, r) * static_cast<float>(r16::at(src, minima)[16 * j + r]);
      const std::uint8_t* vectors = r16::at(src, numbers + sub_bytes * j);
      for (std::size_t k = 0; k < 32; ++k) {
        out[32 * j + k] = scale * static_cast<float>(r16::get<Bits>(vectors, r, k)) - minimum;
      }
    }
  }
};
using PackedQ4_K = PackedK<BlockQ4_K, 4>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_Q4_K_H_
