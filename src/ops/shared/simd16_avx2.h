// Simd with AVX2, FMA and F16C: two registers of 256 bits.
// Functions up to end_isa.h are compiled for AVX2, FMA and F16C.
#define OP_ISA avx2
#define OP_ISA_POP 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

namespace onepass::ops::avx2 {

struct Simd {
  struct F {
    __m256 a, b;  // lanes 0 to 7, 8 to 15
  };
  struct I {
    __m256i a, b;
  };
  struct B {
    __m256i a, b;
  };
  struct M {
    __m256 a, b;
  };
  static constexpr int max_rows = 4;
  static constexpr bool dots_bytes = false;

  static OP_INLINE F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static OP_INLINE F set1(float x) {
    const __m256 v = _mm256_set1_ps(x);
    return {v, v};
  }
  static OP_INLINE F load(const void* p) {
    const float* f = static_cast<const float*>(p);
    return {_mm256_loadu_ps(f), _mm256_loadu_ps(f + 8)};
  }
  static OP_INLINE F load_part(const void* p, std::size_t n) {
    const float* f = static_cast<const float*>(p);
    const I m = first(n);
    // The upper half may lie outside the array: its address is made only where it is used.
    return {_mm256_maskload_ps(f, m.a),
            n > 8 ? _mm256_maskload_ps(f + 8, m.b) : _mm256_setzero_ps()};
  }
  static OP_INLINE void store(void* p, F x) {
    float* f = static_cast<float*>(p);
    _mm256_storeu_ps(f, x.a);
    _mm256_storeu_ps(f + 8, x.b);
  }
  static OP_INLINE void store_part(void* p, F x, std::size_t n) {
    float* f = static_cast<float*>(p);
    const I m = first(n);
    _mm256_maskstore_ps(f, m.a, x.a);
    if (n > 8) _mm256_maskstore_ps(f + 8, m.b, x.b);
  }
  static OP_INLINE F load_f16(const void* p) {
    const __m128i* h = static_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
  }
  static OP_INLINE F load_bf16(const void* p) {
    const __m128i* h = static_cast<const __m128i*>(p);
    const __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128(h));
    const __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128(h + 1));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
  }
  static OP_INLINE void store_f16(void* p, F x) {
    constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    __m128i* h = static_cast<__m128i*>(p);
    _mm_storeu_si128(h, _mm256_cvtps_ph(x.a, mode));
    _mm_storeu_si128(h + 1, _mm256_cvtps_ph(x.b, mode));
  }
  static OP_INLINE void store_bf16(void* p, F x) {
    const __m256i t = _mm256_packus_epi32(bf16(x.a), bf16(x.b));
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permute4x64_epi64(t, 0xd8));
  }

  static OP_INLINE F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  static OP_INLINE F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  static OP_INLINE F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  static OP_INLINE F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  static OP_INLINE F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  static OP_INLINE F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  static OP_INLINE F fma(F x, F y, F z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  static OP_INLINE F fnma(F x, F y, F z) {
    return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
  }
  static OP_INLINE F neg(F x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
  }
  static OP_INLINE F abs(F x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  static OP_INLINE F sqrt(F x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
  static OP_INLINE F round_even(F x) {
    constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, mode), _mm256_round_ps(x.b, mode)};
  }

  static OP_INLINE M lt(F x, F y) { return compare<_CMP_LT_OQ>(x, y); }
  static OP_INLINE M gt(F x, F y) { return compare<_CMP_GT_OQ>(x, y); }
  static OP_INLINE M le(F x, F y) { return compare<_CMP_LE_OQ>(x, y); }
  static OP_INLINE M ge(F x, F y) { return compare<_CMP_GE_OQ>(x, y); }
  static OP_INLINE M eq(F x, F y) { return compare<_CMP_EQ_OQ>(x, y); }
  static OP_INLINE M is_nan(F x) { return compare<_CMP_UNORD_Q>(x, x); }
  static OP_INLINE F select(M m, F x, F y) {
    return {_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)};
  }

  static OP_INLINE float sum(F x) {
    const __m256 h = _mm256_add_ps(x.a, x.b);
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
  }
  static OP_INLINE float max_lane(F x) {
    const __m256 h = _mm256_max_ps(x.a, x.b);
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
  }

  static OP_INLINE F sums(const F* a) { return {eight_sums(a), eight_sums(a + 8)}; }
  static OP_INLINE F swap_pairs(F x) {
    return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
  }

  static OP_INLINE I set1_i(std::int32_t x) {
    const __m256i v = _mm256_set1_epi32(x);
    return {v, v};
  }
  static OP_INLINE I iota() {
    return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
            _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
  }
  static OP_INLINE I load_i(const void* p) {
    const __m256i* v = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
  }
  static OP_INLINE void store_i(void* p, I x) {
    __m256i* v = static_cast<__m256i*>(p);
    _mm256_storeu_si256(v, x.a);
    _mm256_storeu_si256(v + 1, x.b);
  }
  static OP_INLINE I load_i8(const void* p) {
    const __m128i t = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepi8_epi32(t), _mm256_cvtepi8_epi32(_mm_srli_si128(t, 8))};
  }
  static OP_INLINE I load_u8(const void* p) {
    const __m128i t = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return {_mm256_cvtepu8_epi32(t), _mm256_cvtepu8_epi32(_mm_srli_si128(t, 8))};
  }
  static OP_INLINE void store_i8(void* p, I x) {
    const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    const __m128i t = _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    _mm_storeu_si128(static_cast<__m128i*>(p), t);
  }
  static OP_INLINE I add(I x, I y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
  }
  static OP_INLINE I sub(I x, I y) {
    return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
  }
  static OP_INLINE I bit_and(I x, I y) {
    return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
  }
  static OP_INLINE I bit_or(I x, I y) {
    return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
  }
  template <int N>
  static OP_INLINE I shl(I x) {
    return {_mm256_slli_epi32(x.a, N), _mm256_slli_epi32(x.b, N)};
  }
  static OP_INLINE I shl(I x, I n) {
    return {_mm256_sllv_epi32(x.a, n.a), _mm256_sllv_epi32(x.b, n.b)};
  }
  template <int N>
  static OP_INLINE I sra(I x) {
    return {_mm256_srai_epi32(x.a, N), _mm256_srai_epi32(x.b, N)};
  }
  template <int N>
  static OP_INLINE I srl(I x) {
    return {_mm256_srli_epi32(x.a, N), _mm256_srli_epi32(x.b, N)};
  }
  static OP_INLINE I to_int(F x) { return {_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)}; }
  static OP_INLINE F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  static OP_INLINE I bits(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
  static OP_INLINE F from_bits(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
  static OP_INLINE std::int32_t sum_i(I x) {
    const __m256i h = _mm256_add_epi32(x.a, x.b);
    __m128i q = _mm_add_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    q = _mm_add_epi32(q, _mm_shuffle_epi32(q, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(q, _mm_shuffle_epi32(q, 0xb1)));
  }

  static OP_INLINE B load_b(const void* p) {
    const __m256i* v = static_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
  }
  static OP_INLINE B held(B b) { return b; }
  static OP_INLINE B set1_b(std::uint8_t x) {
    const __m256i v = _mm256_set1_epi8(static_cast<char>(x));
    return {v, v};
  }
  template <int At, int Bits, int To = 0>
  static OP_INLINE B bits_of(B x) {
    if constexpr (At > To) {
      x = {_mm256_srli_epi16(x.a, At - To), _mm256_srli_epi16(x.b, At - To)};
    }
    if constexpr (At < To) {
      x = {_mm256_slli_epi16(x.a, To - At), _mm256_slli_epi16(x.b, To - At)};
    }
    if constexpr (Bits == 8) return x;
    const __m256i mask = set1_b(((1 << Bits) - 1) << To).a;
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
  }
  static OP_INLINE B or_b(B x, B y) {
    return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
  }
  static OP_INLINE void store_b(void* p, B x) {
    __m256i* v = static_cast<__m256i*>(p);
    _mm256_storeu_si256(v, x.a);
    _mm256_storeu_si256(v + 1, x.b);
  }
  static OP_INLINE B add_b(B x, B y) {
    return {_mm256_add_epi8(x.a, y.a), _mm256_add_epi8(x.b, y.b)};
  }
  static OP_INLINE B first_trit(B x) { return {trit_half(x.a), trit_half(x.b)}; }
  static OP_INLINE B repeat16(const void* p) {
    const __m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(p)));
    return {v, v};
  }
  static OP_INLINE B lookup16(B table, B index) {
    return {_mm256_shuffle_epi8(table.a, index.a), _mm256_shuffle_epi8(table.b, index.b)};
  }
  static OP_INLINE B bytes(I x) { return {x.a, x.b}; }
  static OP_INLINE I halves(I low, I high) {
    return {_mm256_blend_epi16(low.a, high.a, 0xaa), _mm256_blend_epi16(low.b, high.b, 0xaa)};
  }
  template <int N>
  static OP_INLINE I words_at(const std::uint16_t* table, I index) {
    return {words_of(table, index.a), words_of(table, index.b)};
  }
  template <int Bits>
  static OP_INLINE I dot16(I acc, B w0, B w1, B w2, B w3, const void* x) {
    const __m256i x0 = four(x, 0), x1 = four(x, 4), x2 = four(x, 8), x3 = four(x, 12);
    return {_mm256_add_epi32(acc.a, dot_half<Bits>(w0.a, w1.a, w2.a, w3.a, x0, x1, x2, x3)),
            _mm256_add_epi32(acc.b, dot_half<Bits>(w0.b, w1.b, w2.b, w3.b, x0, x1, x2, x3))};
  }
  static OP_INLINE I pair(std::int16_t first_value, std::int16_t second) {
    return set1_i(static_cast<std::uint16_t>(first_value) | second * 65536);
  }
  static OP_INLINE I pair_dot(const void* s, I c) {
    const __m256i v = four(s, 0);
    return {_mm256_madd_epi16(v, c.a), _mm256_madd_epi16(v, c.b)};
  }
  static OP_INLINE void scaled_sums(const void* p, std::size_t n, float* f) {
    const char* from = static_cast<const char*>(p);
    for (std::size_t j = 0; j < n; ++j) {
      float d;
      std::int16_t s[2];
      std::memcpy(&d, from + 8 * j, 4);
      std::memcpy(s, from + 8 * j + 4, 4);
      f[2 * j + 1] = d * static_cast<float>(s[0] + s[1]);
    }
  }

 private:
  static OP_INLINE __m256 eight_sums(const F* a) {
    __m256 t[4], u[2];
    for (int i = 0; i < 4; ++i) {
      const F x = a[i], y = a[i + 4];
      const __m256 p = _mm256_add_ps(x.a, x.b), q = _mm256_add_ps(y.a, y.b);
      t[i] = _mm256_add_ps(_mm256_permute2f128_ps(p, q, 0x20), _mm256_permute2f128_ps(p, q, 0x31));
    }
    for (int i = 0; i < 2; ++i) {
      u[i] = _mm256_add_ps(_mm256_shuffle_ps(t[2 * i], t[2 * i + 1], 0x44),
                           _mm256_shuffle_ps(t[2 * i], t[2 * i + 1], 0xee));
    }
    return _mm256_add_ps(_mm256_shuffle_ps(u[0], u[1], 0x88), _mm256_shuffle_ps(u[0], u[1], 0xdd));
  }
  static OP_INLINE I first(std::size_t n) {
    const __m256i count = _mm256_set1_epi32(static_cast<int>(n));
    const I i = iota();
    return {_mm256_cmpgt_epi32(count, i.a), _mm256_cmpgt_epi32(count, i.b)};
  }
  template <int Op>
  static OP_INLINE M compare(F x, F y) {
    return {_mm256_cmp_ps(x.a, y.a, Op), _mm256_cmp_ps(x.b, y.b, Op)};
  }
  static OP_INLINE __m256i bf16(__m256 f) {
    const __m256i x = _mm256_castps_si256(f);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(x, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(x, _mm256_set1_epi32(0x400000));
    const __m256 nan = _mm256_cmp_ps(f, f, _CMP_UNORD_Q);
    const __m256i y = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
    return _mm256_srli_epi32(y, 16);
  }
  // 1 where a byte is above 85, 2 where above 170.
  static OP_INLINE __m256i trit_half(__m256i x) {
    const __m256i one = _mm256_set1_epi8(1);
    const __m256i low = _mm256_subs_epu8(x, _mm256_set1_epi8(85));
    const __m256i high = _mm256_subs_epu8(x, _mm256_set1_epi8(static_cast<char>(170)));
    return _mm256_add_epi8(_mm256_min_epu8(low, one), _mm256_min_epu8(high, one));
  }
  // Single loads are faster than gathers on the machines that were measured.
  static OP_INLINE __m128i words_of(const std::uint16_t* table, std::uint64_t low,
                                    std::uint64_t high) {
    __m128i v = _mm_cvtsi32_si128(table[low & 0xffff]);
    v = _mm_insert_epi16(v, table[low >> 16 & 0xffff], 1);
    v = _mm_insert_epi16(v, table[low >> 32 & 0xffff], 2);
    v = _mm_insert_epi16(v, table[low >> 48], 3);
    v = _mm_insert_epi16(v, table[high & 0xffff], 4);
    v = _mm_insert_epi16(v, table[high >> 16 & 0xffff], 5);
    v = _mm_insert_epi16(v, table[high >> 32 & 0xffff], 6);
    return _mm_insert_epi16(v, table[high >> 48], 7);
  }
  static OP_INLINE __m256i words_of(const std::uint16_t* table, __m256i index) {
    std::uint64_t t[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(t), index);
    return _mm256_set_m128i(words_of(table, t[2], t[3]), words_of(table, t[0], t[1]));
  }
  static OP_INLINE __m256i four(const void* x, int at) {
    std::int32_t t;
    std::memcpy(&t, static_cast<const char*>(x) + at, 4);
    return _mm256_set1_epi32(t);
  }
  // maddubs adds two products in 16 bits: with |x| <= 127 a sum of four fits for 5 bits
  // (4 * 2 * 31 * 127 < 2^15), of two for 6 bits, of one for 7 bits.
  template <int Bits>
  static OP_INLINE __m256i dot_half(__m256i w0, __m256i w1, __m256i w2, __m256i w3, __m256i x0,
                                    __m256i x1, __m256i x2, __m256i x3) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (Bits <= 5) {
      const __m256i s = _mm256_add_epi16(
          _mm256_add_epi16(_mm256_maddubs_epi16(w0, x0), _mm256_maddubs_epi16(w1, x1)),
          _mm256_add_epi16(_mm256_maddubs_epi16(w2, x2), _mm256_maddubs_epi16(w3, x3)));
      return _mm256_madd_epi16(s, ones);
    } else if constexpr (Bits == 6) {
      const __m256i s =
          _mm256_add_epi16(_mm256_maddubs_epi16(w0, x0), _mm256_maddubs_epi16(w1, x1));
      const __m256i t =
          _mm256_add_epi16(_mm256_maddubs_epi16(w2, x2), _mm256_maddubs_epi16(w3, x3));
      return _mm256_add_epi32(_mm256_madd_epi16(s, ones), _mm256_madd_epi16(t, ones));
    } else if constexpr (Bits == 7) {
      const __m256i s = _mm256_add_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(w0, x0), ones),
                                         _mm256_madd_epi16(_mm256_maddubs_epi16(w1, x1), ones));
      const __m256i t = _mm256_add_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(w2, x2), ones),
                                         _mm256_madd_epi16(_mm256_maddubs_epi16(w3, x3), ones));
      return _mm256_add_epi32(s, t);
    } else {
      const __m256i s = _mm256_add_epi32(dot_bytes(w0, x0), dot_bytes(w1, x1));
      return _mm256_add_epi32(s, _mm256_add_epi32(dot_bytes(w2, x2), dot_bytes(w3, x3)));
    }
  }
  // Bytes above 127 are cut in their top bit and the rest.
  static OP_INLINE __m256i dot_bytes(__m256i w, __m256i x) {
    const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80));
    const __m256i ones = _mm256_set1_epi16(1);
    const __m256i s = _mm256_maddubs_epi16(_mm256_andnot_si256(top, w), x);
    const __m256i t = _mm256_maddubs_epi16(_mm256_and_si256(w, top), x);
    return _mm256_add_epi32(_mm256_madd_epi16(s, ones), _mm256_madd_epi16(t, ones));
  }
};

}  // namespace onepass::ops::avx2

#include "ops/shared/simd16_math.h"
