// nvfp4: 64 values as 4-bit floats (E2M1); per 16 of them a scale of 8 bits (E4M3 without sign).
// A tensor of them may have one more scale, which files keep as a tensor of its own.
#ifndef ONEPASS_QUANT_NVFP4_H_
#define ONEPASS_QUANT_NVFP4_H_

#include "quant/mxfp4.h"

namespace onepass::quant {

struct BlockNVFP4 {
  static constexpr int elements = 64;
  std::uint8_t scales[4];
  std::uint8_t qs[32];  // per 16 elements 8 bytes: j in the low bits of byte j, j + 8 in the high
};
static_assert(sizeof(BlockNVFP4) == 36);

// The largest scale; the code 127 means 0, the eighth bit nothing but in 255.
inline constexpr int e4m3_top = 126;

// A scale as four bits of a number and four of how many places it is shifted to the left.
OP_FN std::uint8_t e4m3_to_shifted(int code) {
  if (code == 127) return 0;
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  return static_cast<std::uint8_t>(exponent == 0 ? mantissa : (exponent - 1) << 4 | 8 | mantissa);
}
OP_FN float shifted_to_f32(int byte) {
  return static_cast<float>((byte & 15) << (byte >> 4)) * 0x1p-10f;
}
// The scale of fp4_value that a code of a file stands for: half of the E4M3.
OP_FN float e4m3_half(int code) { return shifted_to_f32(e4m3_to_shifted(code)); }
// The code of the largest scale that is at most x >= 0.
OP_FN int e4m3_below(float x) {
  if (!(x < e4m3_half(e4m3_top))) return e4m3_top;
  int code = 0;
  for (int bit = 64; bit > 0; bit /= 2) {
    if (e4m3_half(code | bit) <= x) code |= bit;
  }
  return code;
}

OP_FN int number_of(const BlockNVFP4& block, int e) {
  return block.qs[8 * (e / 16) + e % 8] >> 4 * (e % 16 / 8) & 15;
}

OP_FN float value_of(const BlockNVFP4& block, int e) {
  return e4m3_half(block.scales[e / 16]) * static_cast<float>(fp4_value(number_of(block, e)));
}

OP_FN void dequantize(const BlockNVFP4& block, float* out) {
  for (int e = 0; e < 64; ++e) out[e] = value_of(block, e);
}

// Of the scales that put the largest number between the last two codes or a little beyond the one
// with the smallest error.
OP_FN void quantize(const float* x, BlockNVFP4& block) {
  for (int i = 0; i < 32; ++i) block.qs[i] = 0;
  for (int s = 0; s < 4; ++s) {
    const float* part = x + 16 * s;
    const float top = magnitude(extreme_of(part, 16));
    const int first = e4m3_below(top / 12.0f);
    int best = first;
    float best_error = -1.0f;
    for (int code = first > 1 ? first - 1 : 1; code <= first + 6 && code <= e4m3_top; ++code) {
      const float error = fp4_error(part, 16, e4m3_half(code));
      if (best_error < 0.0f || error < best_error) {
        best_error = error;
        best = code;
      }
    }
    block.scales[s] = static_cast<std::uint8_t>(top > 0.0f ? best : 0);
    const float inverse = inverse_or_zero(e4m3_half(block.scales[s]));
    for (int j = 0; j < 8; ++j) {
      block.qs[8 * s + j] = static_cast<std::uint8_t>(fp4_code(part[j] * inverse) |
                                                      fp4_code(part[j + 8] * inverse) << 4);
    }
  }
}

// Scales are [4][16] bytes: four bits shifted by the four above them.
struct PackedNVFP4 {
  using Family = FineCodebookFamily<fp4_codebook>;
  using Block = BlockNVFP4;
  static constexpr bool row_scales = true;
  static constexpr std::size_t elements = 64, scales = 0, numbers = 64;
  static constexpr std::size_t sub_bytes = 256, bytes = numbers + 2 * sub_bytes;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    for (std::size_t s = 0; s < 4; ++s) {
      r16::at(dst, scales)[16 * s + r] = e4m3_to_shifted(block.scales[s]);
    }
    for (std::size_t k = 0; k < 64; ++k) {
      r16::put<4>(r16::at(dst, numbers + sub_bytes * (k / 32)), r, k % 32,
                  number_of(block, static_cast<int>(k)));
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    for (std::size_t k = 0; k < 64; ++k) {
      const float scale = shifted_to_f32(r16::at(src, scales)[16 * (k / 16) + r]);
      const std::uint8_t* vectors = r16::at(src, numbers + sub_bytes * (k / 32));
      out[k] = scale * static_cast<float>(fp4_value(r16::get<4>(vectors, r, k % 32)));
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_NVFP4_H_
