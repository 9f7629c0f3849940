// Grids: the iq1, iq2 and iq3 formats store, for 4 or 8 values at a time, which of a list of points
// they are, and signs or a shift. Their numbers are whole: value = d * (2 n + 1) * number, with a
// scale n of up to 4 bits per 16 or 32 values.
//
// A Grid has values (per point), points, levels and code_bits (of a value of a point), and
//   words     the codes of each point, the one of value j at bit grid_place(values, j)
//   has_signs whether codes are magnitudes; a value then has a sign, and otherwise a shift
//   number(code, flip)
//   zero, number_bits   numbers above -zero have that many bits; kernels want them unsigned
//   sub_bits  bits of a point that packed rows keep beside a byte: of its index, and its shift
// A Block has Grid, elements, span (values per scale), unit (what f16 d counts), and the functions
// half_of(block), the bits of d, index_of(block, point), flip_of(block, value), 1 where a number is
// negative or shifted up, and scale_of(block, i).
#ifndef ONEPASS_QUANT_GRID_H_
#define ONEPASS_QUANT_GRID_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

// Kernels put a word into the low half of 32 bits and, shifted right by 2 (8 values) or 4 bits,
// into the high one: codes 0 to 3 are then at the bottom of the four bytes, codes 4 to 7 four bits
// up.
OP_FN constexpr int grid_place(int values, int j) {
  return values == 8 ? 8 * (j % 2) + 2 * (j / 2 % 2) + 4 * (j / 4) : 8 * (j % 2) + 4 * (j / 2);
}

template <int Points>
struct GridWords {
  alignas(64) std::uint16_t at[Points];
};

// Four hexadecimal digits a point: a digit is a code of 4 values, or two of 8 values, the first in
// its low bits.
template <int Points, int Values>
constexpr GridWords<Points> grid_words(const char* digits) {
  GridWords<Points> words{};
  for (int i = 0; i < 4 * Points; ++i) {
    const int digit = digits[i] <= '9' ? digits[i] - '0' : digits[i] - 'a' + 10, k = i % 4;
    const int bits =
        Values == 4 ? digit << grid_place(4, k)
                    : (digit & 3) << grid_place(8, 2 * k) | digit >> 2 << grid_place(8, 2 * k + 1);
    words.at[i / 4] = static_cast<std::uint16_t>(words.at[i / 4] | bits);
  }
  return words;
}

// The word of a point, also on devices, whose code can index only arrays of its own.
template <class Grid>
OP_FN int grid_word(int index) {
  static constexpr auto words = Grid::words;
  return words.at[index];
}

// The code of value j.
template <class Grid>
OP_FN int grid_code(int word, int j) {
  return word >> grid_place(Grid::values, j) & ((1 << Grid::code_bits) - 1);
}

// The bits of d.
template <class Block>
OP_FN std::uint16_t half_of(const Block& block) {
  return block.d;
}

template <class Block>
OP_FN float value_of_grid(const Block& block, int e) {
  using Grid = typename Block::Grid;
  const int code =
      grid_code<Grid>(grid_word<Grid>(index_of(block, e / Grid::values)), e % Grid::values);
  const float d = Block::unit * ops::op_f16_to_f32(half_of(block));
  const float scale = d * static_cast<float>(2 * scale_of(block, e / Block::span) + 1);
  return scale * static_cast<float>(Grid::number(code, flip_of(block, e)));
}

template <class Block>
OP_FN void dequantize_grid(const Block& block, float* out) {
  for (int e = 0; e < Block::elements; ++e) out[e] = value_of_grid(block, e);
}

// Of formats with 7 signs for 8 values: the eighth makes the number of minus signs even.
OP_FN int all_signs(int seven) {
  int odd = seven ^ seven >> 4;
  odd ^= odd >> 2;
  return seven | ((odd ^ odd >> 1) & 1) << 7;
}

// Sign of value e of 32: four times 7 signs in the low 28 bits of 4 bytes.
OP_FN int sign_of_28(const std::uint8_t* signs, int e) {
  const int at = 7 * (e / 8), two = signs[at / 8] | (at / 8 < 3 ? signs[at / 8 + 1] << 8 : 0);
  return all_signs(two >> at % 8 & 127) >> e % 8 & 1;
}

// Into zero bits.
OP_FN void put_signs_of_28(std::uint8_t* to, int i, int signs) {
  for (int at = 7 * i, left = signs & 127; left != 0; at += 8 - at % 8) {
    to[at / 8] = static_cast<std::uint8_t>(to[at / 8] | left << at % 8);
    left >>= 8 - at % 8;
  }
}

// Magnitudes from the grid with signs.
template <class Grid>
struct SignedGrid {
  static constexpr bool has_signs = true;
  static OP_FN int number(int code, int negative) {
    return negative != 0 ? -Grid::level(code) : Grid::level(code);
  }
};

// How kernels see the numbers of a grid with signs: those of code | sign << 3, above -zero.
template <class Grid>
constexpr Codebook grid_book() {
  Codebook book{};
  for (int i = 0; i < 16; ++i) {
    const int code = i % 8 < Grid::levels ? i % 8 : 0;
    const int level = Grid::level(code);
    book.numbers[i] = static_cast<std::uint8_t>(Grid::zero + (i < 8 ? level : -level));
  }
  return book;
}

// d is f16; scales are bytes of two, of 64 values or of 32. Per 32 values: bytes of indices, four
// points a vector; `sub_bits` further bits of every point; signs as a plane of 1 bit.
template <class BlockT>
struct PackedGrid {
  using Family = GridFamily<BlockT>;
  using Block = BlockT;
  using Grid = typename Block::Grid;
  static constexpr std::size_t elements = 256, span = Block::span;
  static constexpr std::size_t points = 32 / Grid::values;  // of 32 values
  static constexpr std::size_t half_bits = Grid::sub_bits * points / 2;
  static constexpr std::size_t d = 0, scales = 32;
  static constexpr std::size_t highs = scales + 16 * 128 / span;
  static constexpr std::size_t numbers = highs + 16 * 2 * half_bits;
  static constexpr std::size_t sub_bytes = 16 * points + (Grid::has_signs ? 64 : 0);
  static constexpr std::size_t bytes = numbers + 8 * sub_bytes;

  // Points 4 p and 4 p + 2 are looked up together, and 4 p + 1 and 4 p + 3: which pair q is in.
  static constexpr std::size_t pair_of(std::size_t q) { return q / 4 * 2 + q % 2; }
  static constexpr std::size_t high_bit(std::size_t i, std::size_t q) {
    return 2 * half_bits * i + half_bits * (q % 4 / 2) + Grid::sub_bits * pair_of(q);
  }
  // Bit b of row r: whole bytes or 16-bit words of 16 rows.
  static constexpr std::size_t unit = half_bits == 8 ? 16 : 8;
  static std::uint8_t* high_byte(std::byte* p, std::size_t r, std::size_t b) {
    return r16::at(p, highs) + b / unit * 2 * unit + r * unit / 8 + b % unit / 8;
  }

  static void put(const Block& block, std::size_t r, std::byte* dst) {
    const std::uint16_t half = half_of(block);
    std::memcpy(dst + d + 2 * r, &half, 2);
    for (std::size_t i = 0; i < 256 / span; ++i) {
      std::uint8_t& byte = r16::at(dst, scales)[16 * (i / 2) + r];
      byte = static_cast<std::uint8_t>(byte | scale_of(block, static_cast<int>(i)) << 4 * (i % 2));
    }
    for (std::size_t i = 0; i < 8; ++i) {
      std::uint8_t* sub = r16::at(dst, numbers + sub_bytes * i);
      for (std::size_t q = 0; q < points; ++q) {
        const int point = static_cast<int>(points * i + q), index = index_of(block, point);
        sub[64 * (q / 4) + 4 * r + q % 4] = static_cast<std::uint8_t>(index);
        if constexpr (Grid::sub_bits > 0) {
          int high = index >> 8;
          if constexpr (!Grid::has_signs) high |= flip_of(block, point * Grid::values) << 3;
          std::uint8_t* byte = high_byte(dst, r, high_bit(i, q));
          *byte = static_cast<std::uint8_t>(*byte | high << high_bit(i, q) % 8);
        }
      }
      if constexpr (Grid::has_signs) {
        for (std::size_t k = 0; k < 32; ++k) {
          const int e = static_cast<int>(32 * i + k);
          r16::put<1>(sub + 16 * points, r, k, flip_of(block, e));
        }
      }
    }
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    for (std::size_t e = 0; e < 256; ++e) {
      const std::size_t i = e / 32, q = e % 32 / Grid::values;
      const std::uint8_t* sub = r16::at(src, numbers + sub_bytes * i);
      int index = sub[64 * (q / 4) + 4 * r + q % 4], flip = 0;
      if constexpr (Grid::sub_bits > 0) {
        const std::uint8_t* byte = high_byte(const_cast<std::byte*>(src), r, high_bit(i, q));
        const int high = *byte >> high_bit(i, q) % 8 & ((1 << Grid::sub_bits) - 1);
        index |= (Grid::has_signs ? high : high & 7) << 8;
        flip = high >> 3;
      }
      if constexpr (Grid::has_signs) flip = r16::get<1>(sub + 16 * points, r, e % 32);
      const int n = r16::at(src, scales)[16 * (e / span / 2) + r] >> 4 * (e / span % 2) & 15;
      const float scale = Block::unit * r16::f16_at(src, d, r) * static_cast<float>(2 * n + 1);
      const int code = grid_code<Grid>(grid_word<Grid>(index), static_cast<int>(e % Grid::values));
      out[e] = scale * static_cast<float>(Grid::number(code, flip));
    }
  }
};

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_GRID_H_
