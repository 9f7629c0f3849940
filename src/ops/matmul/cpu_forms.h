// Products of rows of x with one group of 16 packed weight rows, for one instruction set.
//
// Each form has dot<J...>(w, rows, k, acc): acc[16 r + i] = product of row r of x with weight row
// i, for the rows r in J, which stay in registers. The numbers of a block are unpacked once for
// all of them. Per value of acc the steps are the same for every count of rows and every
// instruction set: integer sums per 32 (q2_k, q3_k, q6_k: 16) values, then f32 in order of k.

namespace onepass::ops::OP_ISA {
namespace {

using F = Simd::F;
using I = Simd::I;
using B = Simd::B;

OP_INLINE float float_at(const std::byte* p) {
  float f;
  std::memcpy(&f, p, 4);
  return f;
}

// With one or two rows of x the weights come from memory at its full speed. They are fetched to the
// second-level cache, which waits for more lines at once than the first.
inline constexpr std::size_t prefetch_distance = 6144;
template <std::size_t Bytes>
OP_INLINE void prefetch(const std::byte* w) {
  constexpr int second_level = 2;
  for (std::size_t i = 0; i < Bytes; i += 64) {
    __builtin_prefetch(w + prefetch_distance + i, 0, second_level);
  }
}

// 32 numbers per row as vectors of four.
struct Numbers {
  B v[8];
};
// 32 numbers of N bits as they lie: planes of their low bits, then those of the rest.
template <int N>
struct Planes {
  static constexpr int bits = quant::r16::plane_bits(N);
  B own[bits];
  [[no_unique_address]] Planes<N - bits> rest;

  explicit OP_INLINE Planes(const std::byte* p) : rest(p + 64 * bits) {
    // A vector that is taken apart into four or more is loaded once, not as often as it is used.
    for (int i = 0; i < bits; ++i) {
      own[i] = bits <= 2 ? Simd::held(Simd::load_b(p + 64 * i)) : Simd::load_b(p + 64 * i);
    }
  }
  // Vector V, shifted left by To.
  template <int V, int To = 0>
  OP_INLINE B vector() const {
    const B low = Simd::bits_of<V / bits * bits, bits, To>(own[V % bits]);
    if constexpr (N == bits) {
      return low;
    } else {
      return Simd::or_b(low, rest.template vector<V, To + bits>());
    }
  }
};
template <>
struct Planes<0> {
  explicit OP_INLINE Planes(const std::byte*) {}
};
template <int N, int To = 0>
OP_INLINE Numbers load(const std::byte* p) {
  const Planes<N> planes(p);
  return {{planes.template vector<0, To>(), planes.template vector<1, To>(),
           planes.template vector<2, To>(), planes.template vector<3, To>(),
           planes.template vector<4, To>(), planes.template vector<5, To>(),
           planes.template vector<6, To>(), planes.template vector<7, To>()}};
}

// How a form gets numbers of `bits` bits, 32 at a time: block i of 32 of those at p, after open(p).
// They are there, shifted left by To,
template <int N, int To = 0>
struct Plain {
  static constexpr int bits = N + To;
  OP_INLINE void open(const std::byte*) {}
  OP_INLINE Numbers numbers(const std::byte* p, std::size_t i) const {
    return load<N, To>(p + 64 * N * i);
  }
};
// or codes of them,
template <const quant::Codebook& book>
struct LookedUp {
  static constexpr int bits = book.bits;
  OP_INLINE void open(const std::byte*) {}
  OP_INLINE Numbers numbers(const std::byte* p, std::size_t i) const {
    const B table = Simd::repeat16(book.numbers);
    Numbers n = load<4>(p + 256 * i);
    for (B& v : n.v) v = Simd::lookup16(table, v);
    return n;
  }
};
// or 256 of them as base-3 digits: vector v is digit v % 5 of vector v / 5, as quant::trit gives
// it.
struct Trits {
  static constexpr int bits = 2;
  alignas(64) std::byte digits[65 * 64];
  OP_INLINE void open(const std::byte* p) {
    std::byte* out = digits;
    for (std::size_t v = 0; v < 13; ++v) {
      B b = Simd::load_b(p + 64 * v);
      for (int n = 0; n < 5; ++n, out += 64) {
        Simd::store_b(out, Simd::first_trit(b));
        b = Simd::add_b(b, Simd::add_b(b, b));
      }
    }
  }
  OP_INLINE Numbers numbers(const std::byte*, std::size_t i) const {
    return load<8>(digits + 512 * i);
  }
};

template <class Number>
struct LoadOf;
template <>
struct LoadOf<quant::F32Bits> {
  static constexpr std::size_t size = 4;
  static OP_INLINE F load(const std::byte* p) { return Simd::load(p); }
};
template <>
struct LoadOf<quant::F16Bits> {
  static constexpr std::size_t size = 2;
  static OP_INLINE F load(const std::byte* p) { return Simd::load_f16(p); }
};
template <>
struct LoadOf<quant::BF16Bits> {
  static constexpr std::size_t size = 2;
  static OP_INLINE F load(const std::byte* p) { return Simd::load_bf16(p); }
};

template <int Bits>
OP_INLINE I dot_first(I s, const Numbers& n, const std::byte* x) {
  return Simd::dot16<Bits>(s, n.v[0], n.v[1], n.v[2], n.v[3], x);
}
template <int Bits>
OP_INLINE I dot_second(I s, const Numbers& n, const std::byte* x) {
  return Simd::dot16<Bits>(s, n.v[4], n.v[5], n.v[6], n.v[7], x + 16);
}
template <int Bits>
OP_INLINE I dot32(I s, const Numbers& n, const std::byte* x) {
  return dot_second<Bits>(dot_first<Bits>(s, n, x), n, x);
}

// x is q8a: numbers of block b at x + 32 b, its {d, s0, s1} at x + k + 8 b.

// value = scale * (number - Zero), scale per block, or d * signed byte per 32 values
template <class Packed, class Source, int Zero, class Scale = quant::F16Bits>
struct Symmetric {
  static constexpr bool quantized = true;
  static constexpr std::size_t elements = Packed::elements, bytes = Packed::bytes;
  static constexpr std::size_t subs = elements / 32, sub_bytes = (bytes - Packed::numbers) / subs;

  static OP_INLINE F scale_of(const std::byte* w, std::size_t i) {
    if constexpr (requires { Packed::d; }) {
      const F d = LoadOf<Scale>::load(w + Packed::d);
      return Simd::mul(d, Simd::to_float(Simd::load_i8(w + Packed::scales + 16 * i)));
    } else {
      return LoadOf<Scale>::load(w + Packed::scales);
    }
  }
  static OP_INLINE void step(F d, const Numbers& n, const std::byte* x, const std::byte* tail,
                             F& acc) {
    const I s = dot32<Source::bits>(Simd::pair_dot(tail + 4, Simd::pair(-Zero, -Zero)), n, x);
    acc = Simd::fma(Simd::to_float(s), Simd::mul(d, Simd::set1(float_at(tail))), acc);
  }
  template <std::size_t... J>
  static OP_INLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                            float* acc) {
    const std::byte* const x[] = {rows[J]...};
    F sums[] = {((void)J, Simd::zero())...};
    Source source;
    for (std::size_t b = 0; b < k / 32; b += subs, w += bytes) {
      if constexpr (sizeof...(J) <= 2) prefetch<Packed::numbers>(w);
      source.open(w + Packed::numbers);
      for (std::size_t i = 0; i < subs; ++i) {
        if constexpr (sizeof...(J) <= 2) prefetch<sub_bytes>(w + Packed::numbers + sub_bytes * i);
        const F d = scale_of(w, i);
        const Numbers n = source.numbers(w + Packed::numbers, i);
        (step(d, n, x[J] + 32 * (b + i), x[J] + k + 8 * (b + i), sums[J]), ...);
      }
    }
    (Simd::store(acc + 16 * J, sums[J]), ...);
  }
};

// Of base-3 digits. Digit n of a byte q is (3 q_n - q_(n + 1)) / 256 where q_0 is q and q_(n + 1)
// is 3 q_n modulo 256: with one or two rows of x the products with these bytes cost less than the
// digits where products of whole bytes are fast.
template <class Packed>
struct Ternary : Symmetric<Packed, Trits, 1> {
  using Digits = Symmetric<Packed, Trits, 1>;

  // The bytes of vectors V, V + 1, ... and those that follow them.
  template <std::size_t V, std::size_t... I>
  static OP_INLINE void unpack(const std::byte* p, B& q, Numbers& now, Numbers& next,
                               std::index_sequence<I...>) {
    ((q = (V + I) % 5 == 0 ? Simd::load_b(p + 64 * ((V + I) / 5)) : q, now.v[I] = q,
      q = Simd::add_b(q, Simd::add_b(q, q)), next.v[I] = q),
     ...);
  }
  static OP_INLINE void step(F d, const Numbers& now, const Numbers& next, const std::byte* x,
                             const std::byte* tail, F& acc) {
    const I a = dot32<8>(Simd::set1_i(0), now, x), b = dot32<8>(Simd::set1_i(0), next, x);
    const I digits = Simd::sra<8>(Simd::sub(Simd::add(a, Simd::add(a, a)), b));
    const I s = Simd::add(digits, Simd::pair_dot(tail + 4, Simd::pair(-1, -1)));
    acc = Simd::fma(Simd::to_float(s), Simd::mul(d, Simd::set1(float_at(tail))), acc);
  }
  template <std::size_t Sub, std::size_t... J>
  static OP_INLINE void block(const std::byte* w, const std::byte* const* x,
                              const std::byte* const* tails, F d, B& q, F* sums) {
    Numbers now, next;
    unpack<8 * Sub>(w + Packed::numbers, q, now, next, std::make_index_sequence<8>());
    (step(d, now, next, x[J] + 32 * Sub, tails[J] + 8 * Sub, sums[J]), ...);
    if constexpr (Sub < 7) block<Sub + 1, J...>(w, x, tails, d, q, sums);
  }
  template <std::size_t... J>
  static OP_INLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                            float* acc) {
    if constexpr (sizeof...(J) > 2 || !Simd::dots_bytes) {
      Digits::template dot<J...>(w, rows, k, acc);
    } else {
      F sums[] = {((void)J, Simd::zero())...};
      for (std::size_t b = 0; b < k / 32; b += 8, w += Packed::bytes) {
        prefetch<Packed::bytes>(w);
        const std::byte* const x[] = {rows[J] + 32 * b...};
        const std::byte* const tails[] = {rows[J] + k + 8 * b...};
        B q = Simd::load_b(w + Packed::numbers);
        block<0, J...>(w, x, tails, Simd::load_f16(w + Packed::scales), q, sums);
      }
      (Simd::store(acc + 16 * J, sums[J]), ...);
    }
  }
};

// value = d * scale * number - dmin * minimum; sum is dx * (sum of x)
template <class Packed, int Bits>
struct KForm {
  static constexpr bool quantized = true;
  static constexpr std::size_t elements = Packed::elements, bytes = Packed::bytes;

  static OP_INLINE void step(F scale, F minimum, const Numbers& n, const std::byte* x,
                             const std::byte* tail, float sum, F& acc) {
    const I s = dot32<Bits>(Simd::set1_i(0), n, x);
    acc = Simd::fma(Simd::to_float(s), Simd::mul(scale, Simd::set1(float_at(tail))), acc);
    acc = Simd::fnma(minimum, Simd::set1(sum), acc);
  }
  template <std::size_t... J>
  static OP_INLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                            float* acc) {
    const std::byte* const x[] = {rows[J]...};
    F sums[] = {((void)J, Simd::zero())...};
    float scaled[sizeof...(J)][16];
    for (std::size_t b = 0; b < k / 32; b += 8, w += bytes) {
      (Simd::scaled_sums(x[J] + k + 8 * b, 8, scaled[J]), ...);
      if constexpr (sizeof...(J) <= 2) prefetch<Packed::numbers>(w);
      const F d = Simd::load_f16(w + Packed::d), dmin = Simd::load_f16(w + Packed::dmin);
      for (std::size_t i = 0; i < 8; ++i) {
        const std::byte* p = w + Packed::numbers + Packed::sub_bytes * i;
        if constexpr (sizeof...(J) <= 2) prefetch<Packed::sub_bytes>(p);
        const F scale = Simd::mul(d, Simd::to_float(Simd::load_u8(w + Packed::scales + 16 * i)));
        const F minimum =
            Simd::mul(dmin, Simd::to_float(Simd::load_u8(w + Packed::minima + 16 * i)));
        const Numbers n = load<Bits>(p);
        (step(scale, minimum, n, x[J] + 32 * (b + i), x[J] + k + 8 * (b + i), scaled[J][2 * i + 1],
              sums[J]),
         ...);
      }
    }
    (Simd::store(acc + 16 * J, sums[J]), ...);
  }
};

// value = d * scale * number - dmin * minimum, both per 16 values
template <class Packed, int Bits>
struct FineK {
  static constexpr bool quantized = true;
  static constexpr std::size_t elements = Packed::elements, bytes = Packed::bytes;

  // Scales and minima of both halves; two minima per lane for pair_dot.
  struct Scales {
    F first, second, dmin;
    I minima;
  };
  static OP_INLINE Scales scales_of(const std::byte* w, std::size_t i) {
    const F d = Simd::load_f16(w + Packed::d);
    const I a = Simd::load_u8(w + Packed::scales + 32 * i);
    const I b = Simd::load_u8(w + Packed::scales + 32 * i + 16);
    const I low = Simd::set1_i(15), high = Simd::set1_i(0xf0);
    return {Simd::mul(d, Simd::to_float(Simd::bit_and(a, low))),
            Simd::mul(d, Simd::to_float(Simd::bit_and(b, low))), Simd::load_f16(w + Packed::dmin),
            Simd::bit_or(Simd::srl<4>(a), Simd::shl<12>(Simd::bit_and(b, high)))};
  }
  static OP_INLINE void step(const Scales& scales, const Numbers& n, const std::byte* x,
                             const std::byte* tail, F& acc) {
    const F s = Simd::to_float(dot_first<Bits>(Simd::set1_i(0), n, x));
    const F t = Simd::to_float(dot_second<Bits>(Simd::set1_i(0), n, x));
    const F minima = Simd::to_float(Simd::pair_dot(tail + 4, scales.minima));
    F sum = Simd::fma(s, scales.first, Simd::mul(t, scales.second));
    sum = Simd::fnma(minima, scales.dmin, sum);
    acc = Simd::fma(sum, Simd::set1(float_at(tail)), acc);
  }
  template <std::size_t... J>
  static OP_INLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                            float* acc) {
    const std::byte* const x[] = {rows[J]...};
    F sums[] = {((void)J, Simd::zero())...};
    for (std::size_t b = 0; b < k / 32; b += 8, w += bytes) {
      if constexpr (sizeof...(J) <= 2) prefetch<Packed::numbers>(w);
      for (std::size_t i = 0; i < 8; ++i) {
        const std::byte* p = w + Packed::numbers + Packed::sub_bytes * i;
        if constexpr (sizeof...(J) <= 2) prefetch<Packed::sub_bytes>(p);
        const Scales scales = scales_of(w, i);
        const Numbers n = load<Bits>(p);
        (step(scales, n, x[J] + 32 * (b + i), x[J] + k + 8 * (b + i), sums[J]), ...);
      }
    }
    (Simd::store(acc + 16 * J, sums[J]), ...);
  }
};

// value = scale * (number - Zero), scale per 16 values: d * signed byte, or a float of 8 bits times
// 2^-10 and the scale of the row
template <class Packed, class Source, int Zero>
struct Fine {
  static constexpr bool quantized = true, row_scales = quant::r16::has_row_scales<Packed>();
  static constexpr std::size_t elements = Packed::elements, bytes = Packed::bytes;
  static constexpr std::size_t subs = elements / 32;

  static OP_INLINE F scale_of(const std::byte* w, std::size_t j) {
    const std::byte* scales = w + Packed::scales + 16 * j;
    if constexpr (requires { Packed::d; }) {
      return Simd::mul(Simd::load_f16(w + Packed::d), Simd::to_float(Simd::load_i8(scales)));
    } else {
      const I code = Simd::load_u8(scales);
      return Simd::to_float(Simd::shl(Simd::bit_and(code, Simd::set1_i(15)), Simd::srl<4>(code)));
    }
  }
  static OP_INLINE void step(F first, F second, const Numbers& n, const std::byte* x,
                             const std::byte* tail, F& acc) {
    const F dx = Simd::set1(float_at(tail));
    const I s = dot_first<Source::bits>(Simd::pair_dot(tail + 4, Simd::pair(-Zero, 0)), n, x);
    const I t = dot_second<Source::bits>(Simd::pair_dot(tail + 4, Simd::pair(0, -Zero)), n, x);
    acc = Simd::fma(Simd::to_float(s), Simd::mul(first, dx), acc);
    acc = Simd::fma(Simd::to_float(t), Simd::mul(second, dx), acc);
  }
  template <std::size_t... J>
  static OP_INLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                            float* acc) {
    const std::byte* const x[] = {rows[J]...};
    F sums[] = {((void)J, Simd::zero())...};
    Source source;
    for (std::size_t b = 0; b < k / 32; b += subs, w += bytes) {
      if constexpr (sizeof...(J) <= 2) prefetch<Packed::numbers>(w);
      source.open(w + Packed::numbers);
      for (std::size_t i = 0; i < subs; ++i) {
        if constexpr (sizeof...(J) <= 2) {
          prefetch<Packed::sub_bytes>(w + Packed::numbers + Packed::sub_bytes * i);
        }
        const F first = scale_of(w, 2 * i), second = scale_of(w, 2 * i + 1);
        const Numbers n = source.numbers(w + Packed::numbers, i);
        (step(first, second, n, x[J] + 32 * (b + i), x[J] + k + 8 * (b + i), sums[J]), ...);
      }
    }
    if constexpr (row_scales) {
      const F scale = Simd::mul(Simd::load(w), Simd::set1(0x1p-10f));
      ((sums[J] = Simd::mul(sums[J], scale)), ...);
    }
    (Simd::store(acc + 16 * J, sums[J]), ...);
  }
};

// Numbers of a type that is known when the kernel runs.
enum class Stored : std::uint8_t { f32, f16, bf16 };
OP_INLINE F load_stored(Stored type, const std::byte* p) {
  return type == Stored::f16    ? Simd::load_f16(p)
         : type == Stored::bf16 ? Simd::load_bf16(p)
                                : Simd::load(p);
}

// value = scale * number + bias, both per `subs` times 32 values; one copy for all forms of Bits.
template <int Bits>
struct AffineDot {
  static OP_INLINE void step(F scale, F bias, const Numbers& n, const std::byte* x,
                             const std::byte* tail, float sum, F& acc) {
    const I s = dot32<Bits>(Simd::set1_i(0), n, x);
    acc = Simd::fma(Simd::to_float(s), Simd::mul(scale, Simd::set1(float_at(tail))), acc);
    acc = Simd::fma(bias, Simd::set1(sum), acc);
  }
  template <std::size_t... J>
  static OP_NOINLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                              float* acc, std::size_t subs, Stored type) {
    const std::byte* const x[] = {rows[J]...};
    F sums[] = {((void)J, Simd::zero())...};
    float scaled[sizeof...(J)][16];
    const std::size_t blocks = k / 32, size = type == Stored::f32 ? 64 : 32;
    F scale = Simd::zero(), bias = Simd::zero();
    std::size_t left = 0;  // of the block
    for (std::size_t begin = 0; begin < blocks; begin += 8) {
      const std::size_t count = blocks - begin < 8 ? blocks - begin : 8;
      (Simd::scaled_sums(x[J] + k + 8 * begin, count, scaled[J]), ...);
      for (std::size_t i = 0; i < count; ++i, w += 64 * Bits) {
        if (left == 0) {
          if constexpr (sizeof...(J) <= 2) prefetch<128>(w);
          scale = load_stored(type, w);
          bias = load_stored(type, w + size);
          w += 2 * size;
          left = subs;
        }
        --left;
        if constexpr (sizeof...(J) <= 2) prefetch<64 * Bits>(w);
        const std::size_t b = begin + i;
        const Numbers n = load<Bits>(w);
        (step(scale, bias, n, x[J] + 32 * b, x[J] + k + 8 * b, scaled[J][2 * i + 1], sums[J]), ...);
      }
    }
    (Simd::store(acc + 16 * J, sums[J]), ...);
  }
};
template <class Packed, int Bits, class Number>
struct AffineForm {
  static constexpr bool quantized = true;
  static constexpr std::size_t elements = Packed::elements, bytes = Packed::bytes;
  static constexpr Stored type = std::is_same_v<Number, quant::F32Bits>   ? Stored::f32
                                 : std::is_same_v<Number, quant::F16Bits> ? Stored::f16
                                                                          : Stored::bf16;
  template <std::size_t... J>
  static OP_INLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                            float* acc) {
    AffineDot<Bits>::template dot<J...>(w, rows, k, acc, elements / 32, type);
  }
};

// x is f32.
template <class Load>
struct FloatForm {
  static constexpr bool quantized = false;
  static constexpr std::size_t elements = 32, bytes = 32 * 16 * Load::size;

  template <std::size_t... J>
  static OP_INLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k,
                            float* acc) {
    const std::byte* const x[] = {rows[J]...};
    F sums[] = {((void)J, Simd::zero())...};
    for (std::size_t b = 0; b < k; b += 32) {
      F part[] = {((void)J, Simd::zero())...};
      for (std::size_t i = 0; i < 32; ++i, w += 16 * Load::size) {
        if constexpr (sizeof...(J) <= 2) {
          if (Load::size == 4 || i % 2 == 0) prefetch<64>(w);
        }
        const F weights = Load::load(w);
        ((part[J] = Simd::fma(weights, Simd::set1(float_at(x[J] + 4 * (b + i))), part[J])), ...);
      }
      ((sums[J] = Simd::add(sums[J], part[J])), ...);
    }
    (Simd::store(acc + 16 * J, sums[J]), ...);
  }
};

// The form of a packed block, by its family.
template <class Packed, class Family>
struct FormOfFamily;
template <class Packed, int Bits, int Zero>
struct FormOfFamily<Packed, quant::SymmetricFamily<Bits, Zero>>
    : Symmetric<Packed, Plain<Bits>, Zero> {};
template <class Packed>
struct FormOfFamily<Packed, quant::SignFamily> : Symmetric<Packed, Plain<1, 1>, 1> {};
template <class Packed>
struct FormOfFamily<Packed, quant::TernaryFamily> : Ternary<Packed> {};
template <class Packed, const quant::Codebook& book, class Scale>
struct FormOfFamily<Packed, quant::CodebookFamily<book, Scale>>
    : Symmetric<Packed, LookedUp<book>, book.zero, Scale> {};
template <class Packed, const quant::Codebook& book>
struct FormOfFamily<Packed, quant::FineCodebookFamily<book>>
    : Fine<Packed, LookedUp<book>, book.zero> {};
template <class Packed, int Bits>
struct FormOfFamily<Packed, quant::KFamily<Bits>> : KForm<Packed, Bits> {};
template <class Packed, int Bits>
struct FormOfFamily<Packed, quant::FineKFamily<Bits>> : FineK<Packed, Bits> {};
template <class Packed, int Bits, int Zero>
struct FormOfFamily<Packed, quant::FineFamily<Bits, Zero>> : Fine<Packed, Plain<Bits>, Zero> {};
template <class Packed, int Bits, class Number>
struct FormOfFamily<Packed, quant::AffineFamily<Bits, Number>> : AffineForm<Packed, Bits, Number> {
};
template <class Packed, class Number>
struct FormOfFamily<Packed, quant::FloatFamily<Number>> : FloatForm<LoadOf<Number>> {};
template <class Packed>
using FormOf = FormOfFamily<Packed, typename Packed::Family>;

// Rows [0, m) in turns of 16 (where the form takes as many), 8, 4, 2 and 1; turn(first row, J...).
template <class Form, class Turn>
OP_INLINE void in_turns(std::size_t m, const Turn& turn) {
  std::size_t r = 0;
  if constexpr (requires { Form::more_rows; }) {
    for (; r + 16 <= m; r += 16) turn(r, std::make_index_sequence<16>());
  }
  if constexpr (Simd::max_rows >= 8) {
    for (; r + 8 <= m; r += 8) turn(r, std::make_index_sequence<8>());
  }
  for (; r + 4 <= m; r += 4) turn(r, std::make_index_sequence<4>());
  if (r + 2 <= m) {
    turn(r, std::make_index_sequence<2>());
    r += 2;
  }
  if (r < m) turn(r, std::make_index_sequence<1>());
}

template <class Form, std::size_t... J>
OP_NOINLINE void dot(const std::byte* w, const std::byte* const* rows, std::size_t k, float* acc,
                     std::index_sequence<J...>) {
  Form::template dot<J...>(w, rows, k, acc);
}
template <class Form, std::size_t... J>
OP_NOINLINE void add_unpacked(const typename Form::Unpacked* u, std::size_t n,
                              const std::byte* const* rows, std::size_t b, std::size_t k,
                              float* acc, std::index_sequence<J...>) {
  Form::template add_unpacked<J...>(u, n, rows, b, k, acc);
}

// dot_rows of a form that unpacks, in pieces that the first-level cache holds.
template <class Form>
OP_NOINLINE void dot_unpacked(const std::byte* w, const std::byte* const* rows, std::size_t m,
                              std::size_t k, float* acc) {
  constexpr std::size_t piece = 32;
  typename Form::Unpacked unpacked[piece];
  for (std::size_t r = 0; r < m; ++r) Simd::store(acc + 16 * r, Simd::zero());
  for (std::size_t b = 0; b < k / 32; b += piece) {
    const std::size_t n = k / 32 - b < piece ? k / 32 - b : piece;
    for (std::size_t i = 0; i < n; i += 8, w += Form::bytes) Form::unpack(w, unpacked + i);
    in_turns<Form>(m, [&](std::size_t r, auto turn) {
      add_unpacked<Form>(unpacked, n, rows + r, b, k, acc + 16 * r, turn);
    });
  }
}

// Products of m rows of x with one group: acc[16 r + i].
template <class Form>
OP_NOINLINE void dot_rows(const std::byte* w, const std::byte* const* rows, std::size_t m,
                          std::size_t k, float* acc) {
  if constexpr (requires { requires Form::unpacks; }) {
    if (m > 4) return dot_unpacked<Form>(w, rows, m, k, acc);
  }
  in_turns<Form>(m,
                 [&](std::size_t r, auto turn) { dot<Form>(w, rows + r, k, acc + 16 * r, turn); });
}

}  // namespace
}  // namespace onepass::ops::OP_ISA
