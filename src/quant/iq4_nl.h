// iq4_nl: 32 values as indices into a table of 16 unevenly spaced numbers, with one f16 scale.
#ifndef ONEPASS_QUANT_IQ4_NL_H_
#define ONEPASS_QUANT_IQ4_NL_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

struct BlockIQ4_NL {
  static constexpr int elements = 32;
  std::uint16_t d;      // f16
  std::uint8_t qs[16];  // byte j: element j in the low bits, j + 16 in the high ones
};
static_assert(sizeof(BlockIQ4_NL) == 18);

OP_FN constexpr int iq4_value(int index) {
  constexpr std::int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
  return values[index];
}

// The index of the nearest value, the lower one in the middle; 0 for what is not a number.
OP_FN int iq4_index(float x) {
  int best = 0;
  for (int i = 1; i < 16; ++i) {
    const float middle = 0.5f * static_cast<float>(iq4_value(i - 1) + iq4_value(i));
    if (x > middle) best = i;
  }
  return best;
}

// Of the scales that put the extreme near the end of the table, the least squares fit with the
// smallest error.
OP_FN float iq4_nearest(float x) {
  float nearest = static_cast<float>(iq4_value(0));
  for (int i = 1; i < 16; ++i) {
    const float middle = 0.5f * static_cast<float>(iq4_value(i - 1) + iq4_value(i));
    nearest = x > middle ? static_cast<float>(iq4_value(i)) : nearest;
  }
  return nearest;
}
OP_FN float iq4_fit(const float* x, const float* weights) {
  const float extreme = extreme_of(x, 32);
  if (extreme == 0.0f) return 0.0f;
  constexpr int steps = 25, candidates = 2 * steps + 6;  // computed at once
  float inverse[candidates], xq[candidates], qq[candidates];
  for (int c = 0; c < candidates; ++c) {
    const float end = c % 2 == 0 ? -127.0f : 113.0f;
    inverse[c] = (end + 2.0f * static_cast<float>(c / 2 - 12)) / extreme;
    xq[c] = qq[c] = 0.0f;
  }
  for (int i = 0; i < 32; ++i) {
    for (int c = 0; c < candidates; ++c) {
      const float q = iq4_nearest(x[i] * inverse[c]);
      xq[c] += weights[i] * x[i] * q;
      qq[c] += weights[i] * q * q;
    }
  }
  float best_scale = extreme / -127.0f, best_gain = -1.0f;
  for (int c = 0; c < 2 * steps; ++c) {
    if (qq[c] > 0.0f && xq[c] * xq[c] > best_gain * qq[c]) {
      best_gain = xq[c] * xq[c] / qq[c];
      best_scale = xq[c] / qq[c];
    }
  }
  return best_scale;
}

// Where there is no importance, by the square of a number. floor: as of weigh(), with importance.
OP_FN float iq4_fit(const float* x, const float* importance, float floor) {
  float weights[32];
  for (int i = 0; i < 32; ++i) weights[i] = x[i] * x[i];
  if (importance != nullptr) weigh(x, importance, 32, floor, weights);
  return iq4_fit(x, weights);
}

OP_FN void dequantize(const BlockIQ4_NL& block, float* out) {
  const float d = ops::op_f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(iq4_value(block.qs[j] & 15));
    out[j + 16] = d * static_cast<float>(iq4_value(block.qs[j] >> 4));
  }
}

OP_FN void quantize(const float* x, BlockIQ4_NL& block, const float* importance = nullptr) {
  const float d = iq4_fit(x, importance, root_mean_square(x, 32));
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(d));
  const float inverse = inverse_or_zero(ops::op_f16_to_f32(block.d));
  for (int j = 0; j < 16; ++j) {
    block.qs[j] =
        static_cast<std::uint8_t>(iq4_index(x[j] * inverse) | iq4_index(x[j + 16] * inverse) << 4);
  }
}

inline constexpr Codebook iq4_codebook = [] {
  Codebook book{{}, 8, 128};
  for (int i = 0; i < 16; ++i) book.numbers[i] = static_cast<std::uint8_t>(iq4_value(i) + 128);
  return book;
}();

struct PackedIQ4_NL {
  using Family = CodebookFamily<iq4_codebook>;
  using Block = BlockIQ4_NL;
  static constexpr std::size_t elements = 32, scales = 0, numbers = 32, bytes = 32 + 256;

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    std::memcpy(dst + scales + 2 * r, &block.d, 2);
    r16::put_halves(r16::at(dst, numbers), r, block.qs);
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float d = r16::f16_at(src, scales, r);
    for (std::size_t k = 0; k < 32; ++k) {
      out[k] = d * static_cast<float>(iq4_value(r16::get<4>(r16::at(src, numbers), r, k)));
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_IQ4_NL_H_
