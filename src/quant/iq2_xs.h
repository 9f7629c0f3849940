// iq2_xs: 256 values as points of a grid of 8 values with 7 signs each; per 16 of them a 4-bit
// scale.
#ifndef ONEPASS_QUANT_IQ2_XS_H_
#define ONEPASS_QUANT_IQ2_XS_H_

#include "quant/grid_quantize.h"

namespace onepass::quant {

struct IQ2_XSGrid : SignedGrid<IQ2_XSGrid> {
  static constexpr int values = 8, points = 512, code_bits = 2, levels = 3, sub_bits = 1;
  static constexpr int zero = 64, number_bits = 7;
  static constexpr float first_target = 25.8f, target_step = 3.0f;
  static OP_FN constexpr int level(int code) {
    constexpr int magnitudes[] = {8, 25, 43};
    return magnitudes[code];
  }
  static constexpr GridWords<points> words = grid_words<points, values>(
      "0000200050008000a00011004100610091000200220052008200140044006400940005002500550085001600"
      "460008002800580088001900490099000a0010104010601090100110211051108110a1101210421004102410"
      "541084101510451006108610181048100910002020205020802011204120022014204420052055200820a820"
      "1040404060409040014021405140814012404240044024405440844015404540654006401840484009400050"
      "2050505080501150415002501450445005501650085010604060016062600460246048600080208050808080"
      "a0801180418002805280148044800580858008800a80aa8010904090019004901890989000a002a082a069a0"
      "0aa010014001600190010101210151018101120142010401240154018401150145010601a601180148010901"
      "0011201150118011111141110211141144110511081149116911102140216021012104210621004120415041"
      "8041114141410241144144419441054146410841105140510151045100614161946110814081018121810481"
      "4581688100915091669115a19aa10002200250028002a00211024102020214024402050208020a0210124012"
      "01120412841256120022222208228a221042404201429242044200521452255299521062a1626a6200828082"
      "a0820282558288822a828692099280a202a228a288a2a8a21004400460049004010421045104810412044204"
      "0404240454048404a40415044504060456041804480409040014201450148014111441140214141444140514"
      "081458142a141024402401242124922404240044204450448044114441449144024414444444054408444944"
      "10544054015442540454a9540064a06444640564108440840184048454844584268400941194449405949694"
      "40a400052005500580051105410502058205140544050505080510154015011551150415241500254425aa25"
      "10454045014512450445064518451a450055805508558855126586651a6500854185148505859985a1950495"
      "249558a510064006010604064506260668069a0600164226a4262926004661460156045654564a561086a686"
      "529660a645a626a60008200850088008110841080208a208140844080508080828088a08aa08101840186018"
      "011804181518951800280228082828280a288a2810484048014821485148044806489848005844585a588168"
      "a668008880885288a588088828888a88609822a808a888a869a88aa810094009010904096509480900192219"
      "46196529982900495049444905498549925909592959146915896a89949951a906a9000a200a800aa00a020a"
      "a20a0a0a151a951a6a1a002a202a802aa22a082a0a2a044a594a566a896aa08a028a228a828a0a8a8a8a409a"
      "489a689a82aaa2aa19aaaaaa");
};

struct BlockIQ2_XS {
  using Grid = IQ2_XSGrid;
  static constexpr int elements = 256, span = 16, top_scale = 15;
  static constexpr bool seven_signs = true;
  static constexpr float unit = 0.125f;
  std::uint16_t d;         // f16
  std::uint8_t qs[64];     // per point 2 bytes, little-endian: 9 bits of the point, 7 signs
  std::uint8_t scales[8];  // scale 2 i in the low half of byte i
};
static_assert(sizeof(BlockIQ2_XS) == 74);

OP_FN int index_of(const BlockIQ2_XS& block, int point) {
  return block.qs[2 * point] | (block.qs[2 * point + 1] & 1) << 8;
}
OP_FN int flip_of(const BlockIQ2_XS& block, int e) {
  return all_signs(block.qs[2 * (e / 8) + 1] >> 1) >> e % 8 & 1;
}
OP_FN int scale_of(const BlockIQ2_XS& block, int i) {
  return block.scales[i / 2] >> 4 * (i % 2) & 15;
}

OP_FN void put_point(BlockIQ2_XS& block, int point, int index) {
  block.qs[2 * point] = static_cast<std::uint8_t>(index);
  std::uint8_t& high = block.qs[2 * point + 1];
  high = static_cast<std::uint8_t>(high | index >> 8);
}
OP_FN void put_signs(BlockIQ2_XS& block, int i, int signs) {
  std::uint8_t& byte = block.qs[2 * i + 1];
  byte = static_cast<std::uint8_t>(byte | (signs & 127) << 1);
}
OP_FN void put_scale(BlockIQ2_XS& block, int i, int n) {
  std::uint8_t& byte = block.scales[i / 2];
  byte = static_cast<std::uint8_t>(byte | n << 4 * (i % 2));
}
OP_FN void put_half(BlockIQ2_XS& block, std::uint16_t half) { block.d = half; }

OP_FN void dequantize(const BlockIQ2_XS& block, float* out) { dequantize_grid(block, out); }

OP_FN void quantize(const float* x, BlockIQ2_XS& block, const float* importance = nullptr) {
  quantize_grid(x, importance, block);
}

using PackedIQ2_XS = PackedGrid<BlockIQ2_XS>;

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_IQ2_XS_H_
