// tq1_0: 256 values as -1, 0 or 1 (base-3 digits around 1, five in a byte) with one f16 scale.
#ifndef ONEPASS_QUANT_TQ1_0_H_
#define ONEPASS_QUANT_TQ1_0_H_

#include "quant/tq2_0.h"

namespace onepass::quant {

// A byte b has the first digits of the fraction b / 256.
struct BlockTQ1_0 {
  static constexpr int elements = 256;
  std::uint8_t qs[48];  // byte l < 32: digit n is element 32 n + l; 32 + l: 160 + 16 n + l
  std::uint8_t qh[4];   // byte l: digit n < 4 is element 240 + 4 n + l
  std::uint16_t d;      // f16
};
static_assert(sizeof(BlockTQ1_0) == 54);

// Digit n of a byte: 0, 1 or 2.
OP_FN int trit(int byte, int n) {
  for (int i = 0; i < n; ++i) byte = byte * 3 & 255;
  return byte * 3 >> 8;
}
// The smallest byte with these five digits, the first one at 81.
OP_FN std::uint8_t byte_of_trits(int sum) {
  return static_cast<std::uint8_t>((sum * 256 + 242) / 243);
}

// Where element e of a block is.
struct TritPlace {
  int byte, digit;  // of qs and qh
};
OP_FN TritPlace trit_place(int e) {
  if (e < 160) return {e % 32, e / 32};
  if (e < 240) return {32 + e % 16, (e - 160) / 16};
  return {48 + e % 4, (e - 240) / 4};
}

OP_FN int number_of(const BlockTQ1_0& block, int e) {
  const TritPlace at = trit_place(e);
  return trit(at.byte < 48 ? block.qs[at.byte] : block.qh[at.byte - 48], at.digit);
}

OP_FN float value_of(const BlockTQ1_0& block, int e) {
  return static_cast<float>(number_of(block, e) - 1) * ops::op_f16_to_f32(block.d);
}

OP_FN void dequantize(const BlockTQ1_0& block, float* out) {
  for (int e = 0; e < 256; ++e) out[e] = value_of(block, e);
}

OP_FN void quantize(const float* x, BlockTQ1_0& block) {
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(fit_ternary(x, 256)));
  const float inverse = inverse_or_zero(ops::op_f16_to_f32(block.d));
  int sums[52];
  for (int i = 0; i < 52; ++i) sums[i] = 0;
  for (int e = 0; e < 256; ++e) {  // digits of a byte come in order
    int& sum = sums[trit_place(e).byte];
    sum = 3 * sum + round_to(x[e] * inverse, -1, 1) + 1;
  }
  for (int i = 0; i < 48; ++i) block.qs[i] = byte_of_trits(sums[i]);
  for (int i = 0; i < 4; ++i) block.qh[i] = byte_of_trits(3 * sums[48 + i]);
}

// The 64 vectors of 256 numbers are the digits of 13: vector v is digit v % 5 of vector v / 5.
struct PackedTQ1_0 {
  using Family = TernaryFamily;
  using Block = BlockTQ1_0;
  static constexpr std::size_t elements = 256, scales = 0, numbers = 32, bytes = 32 + 13 * 64;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    for (std::size_t v = 0; v < 13; ++v) {
      for (std::size_t j = 0; j < 4; ++j) {
        int sum = 0;
        for (std::size_t e = 20 * v + j; e < 20 * v + 20; e += 4) {
          sum = 3 * sum + (e < elements ? number_of(block, static_cast<int>(e)) : 0);
        }
        r16::at(dst, numbers)[64 * v + 4 * r + j] = byte_of_trits(sum);
      }
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = r16::f16_at(src, scales, r);
    for (std::size_t e = 0; e < elements; ++e) {
      const int byte = r16::at(src, numbers)[64 * (e / 20) + 4 * r + e % 4];
      out[e] = static_cast<float>(trit(byte, static_cast<int>(e % 20 / 4)) - 1) * d;
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_TQ1_0_H_
