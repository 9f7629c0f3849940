// mxfp4: 32 values as 4-bit floats (E2M1) with one power of two as scale (E8M0).
#ifndef ONEPASS_QUANT_MXFP4_H_
#define ONEPASS_QUANT_MXFP4_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

struct BlockMXFP4 {
  static constexpr int elements = 32;
  std::uint8_t e;       // the scale of fp4_value is 2^(e - 128)
  std::uint8_t qs[16];  // byte j: element j in the low bits, j + 16 in the high ones
};
static_assert(sizeof(BlockMXFP4) == 17);

// Twice the float that a code of 4 bits stands for: a sign, two bits of exponent, one of mantissa.
// Minus zero is zero.
OP_FN constexpr int fp4_value(int code) {
  constexpr std::int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return values[code];
}

// The code whose value is nearest to x, the smaller one in the middle; 0 for what is not a number.
OP_FN int fp4_code(float x) {
  const float size = magnitude(x);
  int code = 0;
  for (int i = 1; i < 8; ++i) {
    const float middle = 0.5f * static_cast<float>(fp4_value(i - 1) + fp4_value(i));
    if (size > middle) code = i;
  }
  return x < 0.0f && code != 0 ? code | 8 : code;
}

// The squared error of n numbers as scale times what their codes stand for.
OP_FN float fp4_error(const float* x, int n, float scale) {
  const float inverse = inverse_or_zero(scale);
  float error = 0.0f;
  for (int i = 0; i < n; ++i) {
    const float y = x[i] - scale * static_cast<float>(fp4_value(fp4_code(x[i] * inverse)));
    error += y * y;
  }
  return error;
}

// The scale of exponent e as bf16: all of them are exact.
OP_FN std::uint16_t e8m0_to_bf16(int e) {
  return static_cast<std::uint16_t>(e < 2 ? 0x20 << e : (e - 1) << 7);
}
OP_FN float e8m0_to_f32(int e) { return ops::op_bf16_to_f32(e8m0_to_bf16(e)); }

OP_FN int number_of(const BlockMXFP4& block, int e) {
  return block.qs[e % 16] >> 4 * (e / 16) & 15;
}

OP_FN float value_of(const BlockMXFP4& block, int e) {
  return e8m0_to_f32(block.e) * static_cast<float>(fp4_value(number_of(block, e)));
}

OP_FN void dequantize(const BlockMXFP4& block, float* out) {
  for (int e = 0; e < 32; ++e) out[e] = value_of(block, e);
}

// Of the scale whose last two codes are around the largest number and the next one, where it may be
// the last code but two, the one with the smaller error.
OP_FN void quantize(const float* x, BlockMXFP4& block) {
  const float top = magnitude(extreme_of(x, 32));
  const int exponent = static_cast<int>(ops::op_to_bits(top) >> 23);  // top < 2^(exponent - 126)
  int e = exponent > 2 ? exponent - 2 : 0;
  if (fp4_error(x, 32, e8m0_to_f32(e + 1)) < fp4_error(x, 32, e8m0_to_f32(e))) ++e;
  block.e = static_cast<std::uint8_t>(e);
  const float inverse = inverse_or_zero(e8m0_to_f32(block.e));
  for (int j = 0; j < 16; ++j) {
    block.qs[j] =
        static_cast<std::uint8_t>(fp4_code(x[j] * inverse) | fp4_code(x[j + 16] * inverse) << 4);
  }
}

inline constexpr Codebook fp4_codebook = [] {
  Codebook book{{}, 5, 12};
  for (int i = 0; i < 16; ++i) book.numbers[i] = static_cast<std::uint8_t>(fp4_value(i) + 12);
  return book;
}();

// Scales are bf16.
struct PackedMXFP4 {
  using Family = CodebookFamily<fp4_codebook, BF16Bits>;
  using Block = BlockMXFP4;
  static constexpr std::size_t elements = 32, scales = 0, numbers = 32, bytes = 32 + 256;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    const std::uint16_t scale = e8m0_to_bf16(block.e);
    std::memcpy(dst + scales + 2 * r, &scale, 2);
    r16::put_halves(r16::at(dst, numbers), r, block.qs);
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = BF16Bits::value(r16::half_at(src, scales, r));
    for (std::size_t k = 0; k < 32; ++k) {
      out[k] = d * static_cast<float>(fp4_value(r16::get<4>(r16::at(src, numbers), r, k)));
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_MXFP4_H_
