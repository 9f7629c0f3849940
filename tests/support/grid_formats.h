// What the bits of one value of a grid format say, written from the definition of each format.
// Which codes a point has comes from src/quant; tests/ops/grid_bits.def tells that they are right.
#pragma once

#include <cstddef>
#include <cstdint>

#include "onepass/dtype.h"
#include "quant/blocks.h"

namespace onepass::test {

// value = d * unit * (2 scale + 1) * number
struct GridElement {
  int point, scale, number;
  double unit;
};

template <class Grid>
int code(int point, std::size_t e) {
  return quant::grid_code<Grid>(Grid::words.at[point], static_cast<int>(e) % Grid::values);
}

inline GridElement grid_element(DType format, const std::uint8_t* b, std::size_t e) {
  constexpr int levels_of_2[] = {8, 25, 43};
  constexpr int levels_of_3[] = {4, 12, 20, 28, 36, 44, 52, 62};
  const auto sign = [](int minus) { return 1 - 2 * minus; };
  const auto bit = [b](std::size_t at, std::size_t i) { return b[at + i / 8] >> (i % 8) & 1; };
  const auto nibble = [b](std::size_t at, std::size_t i) {
    return b[at + i / 2] >> (4 * (i % 2)) & 15;
  };
  // Sign j of 8, of which the first seven are stored: the number of minus signs is even.
  const auto seven = [bit](std::size_t at, std::size_t i, std::size_t j) {
    int odd = 0;
    for (std::size_t k = 0; k < 7; ++k) odd ^= bit(at, i + k);
    return j < 7 ? bit(at, i + j) : odd;
  };
  int point = 0;
  switch (format) {
    case DType::iq3_s:
      point = b[2 + e / 4] | bit(66, e / 4) << 8;
      return {point, nibble(106, e / 32),
              sign(bit(74, e)) * (2 * code<quant::IQ3_SGrid>(point, e) + 1), 1.0};
    case DType::iq3_xxs:
      point = b[2 + e / 4];
      return {point, nibble(66, 8 * (e / 32) + 7),
              sign(seven(66 + 4 * (e / 32), 7 * (e % 32 / 8), e % 8)) *
                  levels_of_3[code<quant::IQ3_XXSGrid>(point, e)],
              0.25};
    case DType::iq2_xs:
      point = b[2 + 2 * (e / 8)] | bit(3 + 2 * (e / 8), 0) << 8;
      return {
          point, nibble(66, e / 16),
          sign(seven(3 + 2 * (e / 8), 1, e % 8)) * levels_of_2[code<quant::IQ2_XSGrid>(point, e)],
          0.125};
    case DType::iq2_s:
      point = b[2 + e / 8] | bit(66, 2 * (e / 8)) << 8 | bit(66, 2 * (e / 8) + 1) << 9;
      return {point, nibble(74, e / 16),
              sign(bit(34, e)) * levels_of_2[code<quant::IQ2_SGrid>(point, e)], 0.125};
    case DType::iq2_xxs:
      point = b[2 + 8 * (e / 32) + e % 32 / 8];
      return {point, nibble(6 + 8 * (e / 32), 7),
              sign(seven(6 + 8 * (e / 32), 7 * (e % 32 / 8), e % 8)) *
                  levels_of_2[code<quant::IQ2_XXSGrid>(point, e)],
              0.125};
    case DType::iq1_s:
      point = b[2 + e / 8] |
              ((b[34 + 2 * (e / 32)] | b[35 + 2 * (e / 32)] << 8) >> 3 * (e % 32 / 8) & 7) << 8;
      return {point, b[35 + 2 * (e / 32)] >> 4 & 7,
              8 * code<quant::IQ1Grid>(point, e) - 8 + sign(bit(35 + 2 * (e / 32), 7)), 0.125};
    case DType::iq1_m:
      point = b[e / 8] | (nibble(32, e / 8) & 7) << 8;
      return {point, (b[48 + 2 * (e / 64)] | b[49 + 2 * (e / 64)] << 8) >> 3 * (e / 16 % 4) & 7,
              8 * code<quant::IQ1Grid>(point, e) - 8 + sign(nibble(32, e / 8) >> 3), 0.125};
    default:
      return {};
  }
}

// iq1_m keeps four bits of its f16 in the top of each of four 16-bit words.
inline int iq1_m_half(const std::uint8_t* b) {
  return b[49] >> 4 | b[51] >> 4 << 4 | b[53] >> 4 << 8 | b[55] >> 4 << 12;
}
inline void put_iq1_m_half(std::uint8_t* b, int bits) {
  for (int i = 0; i < 4; ++i) {
    std::uint8_t& high = b[49 + 2 * i];
    high = static_cast<std::uint8_t>((high & 15) | (bits >> (4 * i) & 15) << 4);
  }
}

}  // namespace onepass::test
