// iq1_m: 256 values as points of iq1_s's grid; per 8 of them a shift, per 16 a 3-bit scale.
#ifndef ONEPASS_QUANT_IQ1_M_H_
#define ONEPASS_QUANT_IQ1_M_H_

#include "quant/iq1_s.h"

namespace onepass::quant {

struct BlockIQ1_M {
  using Grid = IQ1Grid;
  static constexpr int elements = 256, span = 16, shift_span = 8, top_scale = 7;
  static constexpr float unit = 0.125f;
  std::uint8_t qs[32];  // low bits of point i
  std::uint8_t qh[16];  // per point 4 bits: three high bits, 1 for a shift down
  // Per 64 values: four scales, and 4 bits of an f16, the lowest ones first.
  std::uint16_t scales[4];
};
static_assert(sizeof(BlockIQ1_M) == 56);

OP_FN int high_of(const BlockIQ1_M& block, int point) {
  return block.qh[point / 2] >> 4 * (point % 2) & 15;
}
OP_FN int index_of(const BlockIQ1_M& block, int point) {
  return block.qs[point] | (high_of(block, point) & 7) << 8;
}
OP_FN int flip_of(const BlockIQ1_M& block, int e) { return 1 - (high_of(block, e / 8) >> 3); }
OP_FN int scale_of(const BlockIQ1_M& block, int i) {
  return block.scales[i / 4] >> 3 * (i % 4) & 7;
}
OP_FN std::uint16_t half_of(const BlockIQ1_M& block) {
  int bits = 0;
  for (int i = 0; i < 4; ++i) bits |= (block.scales[i] >> 12) << 4 * i;
  return static_cast<std::uint16_t>(bits);
}

OP_FN void put_point(BlockIQ1_M& block, int point, int index) {
  block.qs[point] = static_cast<std::uint8_t>(index);
  std::uint8_t& high = block.qh[point / 2];
  high = static_cast<std::uint8_t>(high | (index >> 8) << 4 * (point % 2));
}
OP_FN void put_up(BlockIQ1_M& block, int point, int up) {
  std::uint8_t& high = block.qh[point / 2];
  high = static_cast<std::uint8_t>(high | (1 - up) << (4 * (point % 2) + 3));
}
OP_FN void put_scale(BlockIQ1_M& block, int i, int n) {
  std::uint16_t& four = block.scales[i / 4];
  four = static_cast<std::uint16_t>(four | n << 3 * (i % 4));
}
OP_FN void put_half(BlockIQ1_M& block, int half) {
  for (int i = 0; i < 4; ++i) {
    const int kept = block.scales[i] & 0xfff;
    block.scales[i] = static_cast<std::uint16_t>(kept | (half >> 4 * i & 15) << 12);
  }
}

OP_FN void dequantize(const BlockIQ1_M& block, float* out) { dequantize_grid(block, out); }

OP_FN void quantize(const float* x, BlockIQ1_M& block, const float* importance = nullptr) {
  quantize_grid(x, importance, block);
}

using PackedIQ1_M = PackedGrid<BlockIQ1_M>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_IQ1_M_H_
