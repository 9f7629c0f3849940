// Products with weights of grids (quant/grid.h), for one instruction set.

namespace onepass::ops::OP_ISA {
namespace {

template <class Packed>
struct GridForm {
  using Grid = typename Packed::Grid;
  static constexpr bool quantized = true;
  static constexpr std::size_t elements = Packed::elements, bytes = Packed::bytes;
  // Lookups take longer than sums that do not fit in registers.
  static constexpr bool more_rows = true;
  static constexpr quant::Codebook book = quant::grid_book<Grid>();
  // How far apart the codes of two neighbouring halves of 32 bits are in a word.
  static constexpr int apart = Grid::values == 8 ? 2 : 4;

  // Bits of 32 values' points beside the bytes of their indices, one half of the points in each
  // half of a lane; of the first or second 32 of 64 values.
  template <int Second>
  static OP_INLINE I highs_of(const std::byte* w, std::size_t i) {
    constexpr int bits = static_cast<int>(Packed::half_bits);
    if constexpr (bits == 0) {
      return Simd::set1_i(0);
    } else {
      const std::byte* p = w + Packed::highs + 8 * bits * i;
      I h;
      if constexpr (bits == 8) {
        h = Simd::srl<16>(Simd::bits(Simd::load_bf16(p + 32 * Second)));
      } else if constexpr (bits == 4) {
        h = Simd::load_u8(p + 16 * Second);
      } else {
        static_assert(bits == 2);
        h = Simd::srl<4 * Second>(Simd::load_u8(p));
      }
      return Simd::bit_and(Simd::bit_or(h, Simd::shl<16 - bits>(h)),
                           Simd::set1_i(((1 << bits) - 1) * 0x00010001));
    }
  }

  // The words of both points of pair P.
  template <int P>
  static OP_INLINE I words_of(const std::byte* p, I highs) {
    const I low = Simd::srl<P % 2 * 8>(Simd::load_i(p + 64 * (P / 2)));
    I index = Simd::bit_and(low, Simd::set1_i(0x00ff00ff));
    if constexpr (Grid::points > 256) {
      constexpr int mask = (Grid::points / 256 - 1) << 8;
      const I high = Simd::shl<8 - Grid::sub_bits * P>(highs);
      index = Simd::bit_or(index, Simd::bit_and(high, Simd::set1_i(mask * 0x00010001)));
    }
    return Simd::words_at<Grid::points>(Grid::words.at, index);
  }
  // Byte j of a lane: a half of it, shifted right by Apart where j is 2 or 3.
  template <bool High, int Apart>
  static OP_INLINE B spread(I words) {
    if constexpr (High) {
      return Simd::bytes(Simd::halves(Simd::srl<16>(words), Simd::srl<Apart>(words)));
    } else {
      return Simd::bytes(Simd::halves(words, Simd::shl<16 - Apart>(words)));
    }
  }
  // Vector V of 32 numbers.
  template <int V>
  static OP_INLINE B vector(const I* words, I highs, const std::byte* signs) {
    constexpr int q = V * 4 / Grid::values, pair = static_cast<int>(Packed::pair_of(q));
    constexpr bool high = q % 4 / 2 == 1;
    constexpr int at = V * 4 % Grid::values;
    const B codes = spread<high, apart>(words[pair]);
    if constexpr (Grid::has_signs) {
      const B index =
          Simd::or_b(Simd::bits_of<at, Grid::code_bits>(codes), vector_of<1, V, 3>(signs));
      return Simd::lookup16(Simd::repeat16(book.numbers), index);
    } else {
      const I up = Simd::bit_and(Simd::srl<4 * pair + 2>(highs), Simd::set1_i(0x00020002));
      const B raised = spread<high, 0>(Simd::bit_or(up, Simd::shl<8>(up)));
      return Simd::or_b(Simd::bits_of<at, 2, 3>(codes), raised);
    }
  }
  template <int... P>
  static OP_INLINE Numbers numbers(const std::byte* p, I highs, std::integer_sequence<int, P...>) {
    const I words[] = {words_of<P>(p, highs)...};
    const std::byte* signs = p + 16 * Packed::points;
    return {{vector<0>(words, highs, signs), vector<1>(words, highs, signs),
             vector<2>(words, highs, signs), vector<3>(words, highs, signs),
             vector<4>(words, highs, signs), vector<5>(words, highs, signs),
             vector<6>(words, highs, signs), vector<7>(words, highs, signs)}};
  }

  // 2 n + 1, n the first or second 4 bits of each byte.
  template <int Second>
  static OP_INLINE F scale_of(F d, const std::byte* p) {
    const I n = Simd::load_u8(p), twice = Second == 0 ? Simd::shl<1>(n) : Simd::srl<3>(n);
    const I odd = Simd::bit_or(Simd::bit_and(twice, Simd::set1_i(30)), Simd::set1_i(1));
    return Simd::mul(d, Simd::to_float(odd));
  }
  static OP_INLINE void step(F scale, const Numbers& n, const std::byte* x, const std::byte* tail,
                             F& acc) {
    const I zero = Simd::pair_dot(tail + 4, Simd::pair(-Grid::zero, -Grid::zero));
    const I s = dot32<Grid::number_bits>(zero, n, x);
    acc = Simd::fma(Simd::to_float(s), Simd::mul(scale, Simd::set1(float_at(tail))), acc);
  }
  static OP_INLINE void step(F first, F second, const Numbers& n, const std::byte* x,
                             const std::byte* tail, F& acc) {
    const F dx = Simd::set1(float_at(tail));
    const I s =
        dot_first<Grid::number_bits>(Simd::pair_dot(tail + 4, Simd::pair(-Grid::zero, 0)), n, x);
    const I t =
        dot_second<Grid::number_bits>(Simd::pair_dot(tail + 4, Simd::pair(0, -Grid::zero)), n, x);
    acc = Simd::fma(Simd::to_float(s), Simd::mul(first, dx), acc);
    acc = Simd::fma(Simd::to_float(t), Simd::mul(second, dx), acc);
  }
  // The first or second 32 of 64 values; b counts 32.
  template <int Second, std::size_t... J>
  static OP_INLINE void half(const std::byte* w, F d, std::size_t i, const std::byte* const* x,
                             std::size_t b, std::size_t k, F* sums) {
    const std::byte* p = w + Packed::numbers + Packed::sub_bytes * (2 * i + Second);
    if constexpr (sizeof...(J) <= 2) prefetch<Packed::sub_bytes>(p);
    const Numbers n =
        numbers(p, highs_of<Second>(w, i), std::make_integer_sequence<int, Packed::points / 2>());
    if constexpr (Packed::span == 32) {
      const F scale = scale_of<Second>(d, w + Packed::scales + 16 * i);
      (step(scale, n, x[J] + 32 * b, x[J] + k + 8 * b, sums[J]), ...);
    } else {
      const std::byte* scales = w + Packed::scales + 16 * (2 * i + Second);
      const F first = scale_of<0>(d, scales), second = scale_of<1>(d, scales);
      (step(first, second, n, x[J] + 32 * b, x[J] + k + 8 * b, sums[J]), ...);
    }
  }
  template <std::size_t... J>
  static OP_INLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                            float* acc) {
    const std::byte* const x[] = {rows[J]...};
    F sums[] = {((void)J, Simd::zero())...};
    for (std::size_t b = 0; b < k / 32; b += 8, w += bytes) {
      if constexpr (sizeof...(J) <= 2) prefetch<Packed::numbers>(w);
      const F d = Simd::mul(Simd::load_f16(w + Packed::d), Simd::set1(Packed::Block::unit));
      for (std::size_t i = 0; i < 4; ++i) {
        half<0, J...>(w, d, i, x, b + 2 * i, k, sums);
        half<1, J...>(w, d, i, x, b + 2 * i + 1, k, sums);
      }
    }
    (Simd::store(acc + 16 * J, sums[J]), ...);
  }
};

template <class Packed, class Block>
struct FormOfFamily<Packed, quant::GridFamily<Block>> : GridForm<Packed> {};

}  // namespace
}  // namespace onepass::ops::OP_ISA
