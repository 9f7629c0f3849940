// iq3_xxs: 256 values as points of a grid of 4 values; per 8 of them 7 signs, per 32 a 4-bit scale.
#ifndef ONEPASS_QUANT_IQ3_XXS_H_
#define ONEPASS_QUANT_IQ3_XXS_H_

#include "quant/grid_quantize.h"

namespace onepass::quant {

struct IQ3_XXSGrid : SignedGrid<IQ3_XXSGrid> {
  static constexpr int values = 4, points = 256, code_bits = 3, levels = 8, sub_bits = 0;
  static constexpr int zero = 64, number_bits = 7;
  static constexpr float first_target = 37.2f, target_step = 4.3f;
  static OP_FN constexpr int level(int code) {
    constexpr int magnitudes[] = {4, 12, 20, 28, 36, 44, 52, 62};
    return magnitudes[code];
  }
  static constexpr GridWords<points> words = grid_words<points, values>(
      "0000200040001100310071000200220013002400370057001010301001102110121052100310231014104510"
      "0710002020204020112002202220132033207320152075205720103070300130213052300730314073404440"
      "7540374057401050705023502550536046600170417061703470167010013001010121011201320103012301"
      "4301740105010011201111110211221110213021012121211221032127210031203102311331643166311041"
      "5041054102514251645117515061227104710002200211023102020222026202130224021012301250120112"
      "2112121203123612761207120022202211227122022222227322042255221032013241320732473253423542"
      "3052725214524752107230726172547210030103210312033203050356032703001320130213131344136413"
      "1023302301235223252327231133333303437443274300536053225355534163636336633373067340047104"
      "5304730435047504471402247324042406246624703454344044154446445254345407545074017421740374"
      "2105140507050015601562155515412523252725203535350145324572452745205513550565427524754206"
      "4406640646061216161671264626033663364446505625563366307612763007500770070107230725076217"
      "04172127542725270037513733370637124714470057205742570367");
};

struct BlockIQ3_XXS {
  using Grid = IQ3_XXSGrid;
  static constexpr int elements = 256, span = 32, top_scale = 15;
  static constexpr bool seven_signs = true;
  static constexpr float unit = 0.25f;
  std::uint16_t d;         // f16
  std::uint8_t qs[64];     // point i
  std::uint8_t signs[32];  // per 32 values 4 bytes, little-endian: four times 7 signs, the scale
};
static_assert(sizeof(BlockIQ3_XXS) == 98);

OP_FN int index_of(const BlockIQ3_XXS& block, int point) { return block.qs[point]; }
OP_FN int flip_of(const BlockIQ3_XXS& block, int e) {
  return sign_of_28(block.signs + 4 * (e / 32), e % 32);
}
OP_FN int scale_of(const BlockIQ3_XXS& block, int i) { return block.signs[4 * i + 3] >> 4; }

OP_FN void put_point(BlockIQ3_XXS& block, int point, int index) {
  block.qs[point] = static_cast<std::uint8_t>(index);
}
OP_FN void put_signs(BlockIQ3_XXS& block, int i, int signs) {
  put_signs_of_28(block.signs + 4 * (i / 4), i % 4, signs);
}
OP_FN void put_scale(BlockIQ3_XXS& block, int i, int n) {
  std::uint8_t& byte = block.signs[4 * i + 3];
  byte = static_cast<std::uint8_t>(byte | n << 4);
}
OP_FN void put_half(BlockIQ3_XXS& block, std::uint16_t half) { block.d = half; }

OP_FN void dequantize(const BlockIQ3_XXS& block, float* out) { dequantize_grid(block, out); }

OP_FN void quantize(const float* x, BlockIQ3_XXS& block, const float* importance = nullptr) {
  quantize_grid(x, importance, block);
}

using PackedIQ3_XXS = PackedGrid<BlockIQ3_XXS>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_IQ3_XXS_H_
