// Reference quantizers of q4_k, q5_k and q6_k.
#ifndef ONEPASS_QUANT_K_QUANTIZE_H_
#define ONEPASS_QUANT_K_QUANTIZE_H_

#include "quant/fit.h"
#include "quant/q4_k.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"

namespace onepass::quant {

// Fills d, dmin and scales of q4_k or q5_k for numbers up to `top`, and gives the numbers.
template <class Block>
OP_FN void quantize_sub_blocks(const float* x, const float* importance, int top, Block& block,
                               std::uint8_t* numbers) {
  Affine fits[8];
  const Steps steps = fit_parts<8>(x, importance, -1.0f, top, 63, fits);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(steps.scale));
  block.dmin = static_cast<std::uint16_t>(ops::op_f32_to_f16(steps.offset));
  const float d = ops::op_f16_to_f32(block.d), dmin = ops::op_f16_to_f32(block.dmin);
  const float inverse_d = inverse_or_zero(d), inverse_dmin = inverse_or_zero(dmin);
  for (int i = 0; i < 12; ++i) block.scales[i] = 0;
  for (int j = 0; j < 8; ++j) {
    const int sc = round_to(fits[j].scale * inverse_d, 0, 63);
    const int m = round_to(fits[j].offset * inverse_dmin, 0, 63);
    std::uint8_t* s = block.scales;
    if (j < 4) {
      s[j] = static_cast<std::uint8_t>(s[j] | sc);
      s[j + 4] = static_cast<std::uint8_t>(s[j + 4] | m);
    } else {
      s[j + 4] = static_cast<std::uint8_t>((sc & 15) | (m & 15) << 4);
      s[j - 4] = static_cast<std::uint8_t>(s[j - 4] | (sc >> 4) << 6);
      s[j] = static_cast<std::uint8_t>(s[j] | (m >> 4) << 6);
    }
    const float inverse = inverse_or_zero(d * static_cast<float>(sc));
    const float offset = dmin * static_cast<float>(m);
    for (int e = 32 * j; e < 32 * j + 32; ++e) {
      numbers[e] = static_cast<std::uint8_t>(round_to((x[e] + offset) * inverse, 0, top));
    }
  }
}

// Low four bits as in q4_k and q5_k.
OP_FN void store_nibbles(const std::uint8_t* numbers, std::uint8_t* qs) {
  for (int p = 0; p < 4; ++p) {
    for (int l = 0; l < 32; ++l) {
      const int low = numbers[64 * p + l] & 15, high = numbers[64 * p + 32 + l] & 15;
      qs[32 * p + l] = static_cast<std::uint8_t>(low | high << 4);
    }
  }
}

OP_FN void quantize(const float* x, BlockQ4_K& block, const float* importance = nullptr) {
  std::uint8_t numbers[256];
  quantize_sub_blocks(x, importance, 15, block, numbers);
  store_nibbles(numbers, block.qs);
}

OP_FN void quantize(const float* x, BlockQ5_K& block, const float* importance = nullptr) {
  std::uint8_t numbers[256];
  quantize_sub_blocks(x, importance, 31, block, numbers);
  store_nibbles(numbers, block.qs);
  for (int l = 0; l < 32; ++l) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (numbers[32 * j + l] >> 4) << j;
    block.qh[l] = static_cast<std::uint8_t>(bits);
  }
}

OP_FN void quantize(const float* x, BlockQ6_K& block, const float* importance = nullptr) {
  float fits[16];
  const float step = fit_scales(x, importance, -32, 31, 128, fits);
  block.d = static_cast<std::uint16_t>(ops::op_f32_to_f16(step));
  const float d = ops::op_f16_to_f32(block.d), inverse_d = inverse_or_zero(d);
  for (int i = 0; i < 128; ++i) block.ql[i] = 0;
  for (int i = 0; i < 64; ++i) block.qh[i] = 0;
  for (int j = 0; j < 16; ++j) {
    const int sc = round_to(fits[j] * inverse_d, -128, 127);
    block.scales[j] = static_cast<std::int8_t>(sc);
    const float inverse = inverse_or_zero(d * static_cast<float>(sc));
    const int half = j / 8, s = j % 8 / 2;
    std::uint8_t* ql = block.ql + 64 * half + 32 * (s % 2) + 16 * (j % 2);
    std::uint8_t* qh = block.qh + 32 * half + 16 * (j % 2);
    for (int l = 0; l < 16; ++l) {
      const int q = round_to(x[16 * j + l] * inverse, -32, 31) + 32;
      ql[l] = static_cast<std::uint8_t>(ql[l] | (q & 15) << (4 * (s / 2)));
      qh[l] = static_cast<std::uint8_t>(qh[l] | (q >> 4) << (2 * s));
    }
  }
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_K_QUANTIZE_H_
