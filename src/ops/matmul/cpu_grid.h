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

  using Signs = Planes<Grid::has_signs ? 1 : 0>;

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
  static OP_INLINE B vector(const I* words, I highs, const Signs& signs) {
    constexpr int q = V * 4 / Grid::values, pair = static_cast<int>(Packed::pair_of(q));
    constexpr bool high = q % 4 / 2 == 1;
    constexpr int at = V * 4 % Grid::values;
    const B codes = spread<high, apart>(words[pair]);
    if constexpr (Grid::has_signs) {
      const B index =
          Simd::or_b(Simd::bits_of<at, Grid::code_bits>(codes), signs.template vector<V, 3>());
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
    const Signs signs(p + 16 * Packed::points);
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
  // 32 values of 16 rows; the scale of the second 16 counts where span is 16.
  struct Unpacked {
    Numbers n;
    F first, second;
  };
  // The first or second 32 of 64 values.
  template <int Second>
  static OP_INLINE Unpacked half(const std::byte* w, F d, std::size_t i) {
    const std::byte* p = w + Packed::numbers + Packed::sub_bytes * (2 * i + Second);
    const Numbers n =
        numbers(p, highs_of<Second>(w, i), std::make_integer_sequence<int, Packed::points / 2>());
    if constexpr (Packed::span == 32) {
      const F scale = scale_of<Second>(d, w + Packed::scales + 16 * i);
      return {n, scale, scale};
    } else {
      const std::byte* scales = w + Packed::scales + 16 * (2 * i + Second);
      return {n, scale_of<0>(d, scales), scale_of<1>(d, scales)};
    }
  }
  static OP_INLINE F unit_of(const std::byte* w) {
    return Simd::mul(Simd::load_f16(w + Packed::d), Simd::set1(Packed::Block::unit));
  }

  static OP_INLINE void step(const Unpacked& u, const std::byte* x, const std::byte* tail, F& acc) {
    constexpr int bits = Grid::number_bits;
    const F dx = Simd::set1(float_at(tail));
    if constexpr (Packed::span == 32) {
      const I zero = Simd::pair_dot(tail + 4, Simd::pair(-Grid::zero, -Grid::zero));
      acc = Simd::fma(Simd::to_float(dot32<bits>(zero, u.n, x)), Simd::mul(u.first, dx), acc);
    } else {
      const I s = dot_first<bits>(Simd::pair_dot(tail + 4, Simd::pair(-Grid::zero, 0)), u.n, x);
      const I t = dot_second<bits>(Simd::pair_dot(tail + 4, Simd::pair(0, -Grid::zero)), u.n, x);
      acc = Simd::fma(Simd::to_float(s), Simd::mul(u.first, dx), acc);
      acc = Simd::fma(Simd::to_float(t), Simd::mul(u.second, dx), acc);
    }
  }
  // b counts 32.
  template <int Second, std::size_t... J>
  static OP_INLINE void step_half(const std::byte* w, F d, std::size_t i, const std::byte* const* x,
                                  std::size_t b, std::size_t k, F* sums) {
    if constexpr (sizeof...(J) <= 2) {
      prefetch<Packed::sub_bytes>(w + Packed::numbers + Packed::sub_bytes * (2 * i + Second));
    }
    const Unpacked u = half<Second>(w, d, i);
    (step(u, x[J] + 32 * b, x[J] + k + 8 * b, sums[J]), ...);
  }
  template <std::size_t... J>
  static OP_INLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                            float* acc) {
    const std::byte* const x[] = {rows[J]...};
    F sums[] = {((void)J, Simd::zero())...};
    for (std::size_t b = 0; b < k / 32; b += 8, w += bytes) {
      if constexpr (sizeof...(J) <= 2) prefetch<Packed::numbers>(w);
      const F d = unit_of(w);
      for (std::size_t i = 0; i < 4; ++i) {
        step_half<0, J...>(w, d, i, x, b + 2 * i, k, sums);
        step_half<1, J...>(w, d, i, x, b + 2 * i + 1, k, sums);
      }
    }
    (Simd::store(acc + 16 * J, sums[J]), ...);
  }

  // Many rows share what looking points up in a large grid costs: blocks are unpacked into memory.
  static constexpr bool unpacks = Grid::points > 1024;
  static OP_INLINE void unpack(const std::byte* w, Unpacked* out) {
    const F d = unit_of(w);
    for (std::size_t i = 0; i < 4; ++i) {
      out[2 * i] = half<0>(w, d, i);
      out[2 * i + 1] = half<1>(w, d, i);
    }
  }
  // Adds the products with 32 n values from block b of 32 on.
  template <std::size_t... J>
  static OP_INLINE void add_unpacked(const Unpacked* u, std::size_t n, const std::byte* const* rows,
                                     std::size_t b, std::size_t k, float* acc) {
    const std::byte* const x[] = {rows[J]...};
    F sums[] = {Simd::load(acc + 16 * J)...};
    for (std::size_t i = 0; i < n; ++i) {
      (step(u[i], x[J] + 32 * (b + i), x[J] + k + 8 * (b + i), sums[J]), ...);
    }
    (Simd::store(acc + 16 * J, sums[J]), ...);
  }
};

template <class Packed, class Block>
struct FormOfFamily<Packed, quant::GridFamily<Block>> : GridForm<Packed> {};

}  // namespace
}  // namespace onepass::ops::OP_ISA
