// iq2_xxs: 256 values as points of a grid of 8 values with 7 signs each; per 32 of them a 4-bit
// scale.
#ifndef ONEPASS_QUANT_IQ2_XXS_H_
#define ONEPASS_QUANT_IQ2_XXS_H_

#include "quant/grid_quantize.h"

namespace onepass::quant {

struct IQ2_XXSGrid : SignedGrid<IQ2_XXSGrid> {
  static constexpr int values = 8, points = 256, code_bits = 2, levels = 3, sub_bits = 0;
  static constexpr int zero = 64, number_bits = 7;
  static constexpr float first_target = 25.8f, target_step = 3.0f;
  static OP_FN constexpr int level(int code) {
    constexpr int magnitudes[] = {8, 25, 43};
    return magnitudes[code];
  }
  static constexpr GridWords<points> words = grid_words<points, values>(
      "0000200050008000a00011004100020022008200a20014004400050085001600460008002800a8002a001010"
      "4010011051100410481089100020202022202820104040400140124042400440244084400640184048400940"
      "4a400050205080500250645096500850195090600160046048604a6000805080808041808280148044800580"
      "258088804090049020a041a01001400101011201040106014801090159010011801102110511a51108114221"
      "5421004180410241524194410841815126510061616110814081018104811881009150910a9115a100022002"
      "a0024402160208022802921284120022202210424042014204426542005214524652096280820282498244a2"
      "1004400401048104120442040404840465040604180448040904001402141614081458141024012484246524"
      "86240044804402440844994421544254006410844084018404845484009485941694289454a409a400058005"
      "11059105020508058805401524154a15192509452945a055106545650085118591854685049580a540060106"
      "04068606001655168126062600465046015621564856248600082008a0081408280840188118041811281048"
      "404801485148044806480058645849589068046806682088409811a840090109420904091a09611908195429"
      "004922494449155918890299200a050a580a901a002a814a058a409a");
};

struct BlockIQ2_XXS {
  using Grid = IQ2_XXSGrid;
  static constexpr int elements = 256, span = 32, top_scale = 15;
  static constexpr bool seven_signs = true;
  static constexpr float unit = 0.125f;
  std::uint16_t d;  // f16
  // Per 32 values 8 bytes: four points; little-endian four times 7 signs, the scale.
  std::uint8_t qs[64];
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

OP_FN int index_of(const BlockIQ2_XXS& block, int point) {
  return block.qs[8 * (point / 4) + point % 4];
}
OP_FN int flip_of(const BlockIQ2_XXS& block, int e) {
  return sign_of_28(block.qs + 8 * (e / 32) + 4, e % 32);
}
OP_FN int scale_of(const BlockIQ2_XXS& block, int i) { return block.qs[8 * i + 7] >> 4; }

OP_FN void put_point(BlockIQ2_XXS& block, int point, int index) {
  block.qs[8 * (point / 4) + point % 4] = static_cast<std::uint8_t>(index);
}
OP_FN void put_signs(BlockIQ2_XXS& block, int i, int signs) {
  put_signs_of_28(block.qs + 8 * (i / 4) + 4, i % 4, signs);
}
OP_FN void put_scale(BlockIQ2_XXS& block, int i, int n) {
  std::uint8_t& byte = block.qs[8 * i + 7];
  byte = static_cast<std::uint8_t>(byte | n << 4);
}
OP_FN void put_half(BlockIQ2_XXS& block, std::uint16_t half) { block.d = half; }

OP_FN void dequantize(const BlockIQ2_XXS& block, float* out) { dequantize_grid(block, out); }

OP_FN void quantize(const float* x, BlockIQ2_XXS& block, const float* importance = nullptr) {
  quantize_grid(x, importance, block);
}

using PackedIQ2_XXS = PackedGrid<BlockIQ2_XXS>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_IQ2_XXS_H_
