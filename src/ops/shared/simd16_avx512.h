// Simd with AVX-512: one register of 512 bits.
// Functions up to end_isa.h are compiled for AVX-512 F, BW, VL and VNNI.
#define OP_ISA avx512
#define OP_ISA_POP 1
#if defined(__clang__)
#pragma clang attribute push(                                                      \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")
#endif

namespace onepass::ops::avx512 {

struct Simd {
  struct F {
    __m512 v;
  };
  struct I {
    __m512i v;
  };
  struct B {
    __m512i v;
  };
  struct M {
    __mmask16 v;
  };
  static constexpr int max_rows = 8;
  static constexpr bool dots_bytes = true;

  static OP_INLINE __mmask16 first(std::size_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

  static OP_INLINE F zero() { return {_mm512_setzero_ps()}; }
  static OP_INLINE F set1(float x) { return {_mm512_set1_ps(x)}; }
  static OP_INLINE F load(const void* p) { return {_mm512_loadu_ps(p)}; }
  static OP_INLINE F load_part(const void* p, std::size_t n) {
    return {_mm512_maskz_loadu_ps(first(n), p)};
  }
  static OP_INLINE void store(void* p, F a) { _mm512_storeu_ps(p, a.v); }
  static OP_INLINE void store_part(void* p, F a, std::size_t n) {
    _mm512_mask_storeu_ps(p, first(n), a.v);
  }
  static OP_INLINE F load_f16(const void* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
  }
  static OP_INLINE F load_bf16(const void* p) {
    const __m512i h = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(h, 16))};
  }
  static OP_INLINE void store_f16(void* p, F a) {
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static OP_INLINE void store_bf16(void* p, F a) {
    const __m512i x = _mm512_castps_si512(a.v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i quiet = _mm512_or_si512(x, _mm512_set1_epi32(0x400000));
    const __m512i y = _mm512_mask_blend_epi32(is_nan(a).v, rounded, quiet);
    _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(y, 16)));
  }

  static OP_INLINE F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
  static OP_INLINE F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static OP_INLINE F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static OP_INLINE F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
  static OP_INLINE F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
  static OP_INLINE F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
  static OP_INLINE F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static OP_INLINE F fnma(F a, F b, F c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
  static OP_INLINE F neg(F a) {
    const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    return {_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a.v), sign))};
  }
  static OP_INLINE F abs(F a) {
    const __m512i rest = _mm512_set1_epi32(0x7fffffff);
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a.v), rest))};
  }
  static OP_INLINE F sqrt(F a) { return {_mm512_sqrt_ps(a.v)}; }
  static OP_INLINE F round_even(F a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }

  static OP_INLINE M lt(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
  static OP_INLINE M gt(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
  static OP_INLINE M le(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
  static OP_INLINE M ge(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
  static OP_INLINE M eq(F a, F b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
  static OP_INLINE M is_nan(F a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
  static OP_INLINE F select(M m, F a, F b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }

  static OP_INLINE float sum(F a) {
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a.v), high(a));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
  }
  static OP_INLINE float max_lane(F a) {
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a.v), high(a));
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
  }

  static OP_INLINE F sums(const F* a) {
    __m512 t[8], u[4], v[2];
    for (int i = 0; i < 8; ++i) {  // input s of the tree comes out in lane 4 (s % 4) + s / 4
      const __m512 x = a[tree_place(2 * i)].v, y = a[tree_place(2 * i + 1)].v;
      t[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xff00, x, y), _mm512_shuffle_f32x4(x, y, 0x4e));
    }
    for (int i = 0; i < 4; ++i) {
      u[i] = _mm512_add_ps(_mm512_shuffle_f32x4(t[2 * i], t[2 * i + 1], 0x88),
                           _mm512_shuffle_f32x4(t[2 * i], t[2 * i + 1], 0xdd));
    }
    for (int i = 0; i < 2; ++i) {
      v[i] = _mm512_add_ps(_mm512_mask_blend_ps(0xcccc, u[2 * i], u[2 * i + 1]),
                           _mm512_shuffle_ps(u[2 * i], u[2 * i + 1], 0x4e));
    }
    return {
        _mm512_add_ps(_mm512_shuffle_ps(v[0], v[1], 0x88), _mm512_shuffle_ps(v[0], v[1], 0xdd))};
  }
  static OP_INLINE F swap_pairs(F a) { return {_mm512_permute_ps(a.v, 0xb1)}; }

  static OP_INLINE I set1_i(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  static OP_INLINE I iota() {
    return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
  }
  static OP_INLINE I load_i(const void* p) { return {_mm512_loadu_si512(p)}; }
  static OP_INLINE void store_i(void* p, I a) { _mm512_storeu_si512(p, a.v); }
  static OP_INLINE I load_i8(const void* p) {
    return {_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  static OP_INLINE I load_u8(const void* p) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  static OP_INLINE void store_i8(void* p, I a) {
    _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
  }
  static OP_INLINE I add(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
  static OP_INLINE I sub(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
  static OP_INLINE I bit_and(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
  static OP_INLINE I bit_or(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
  template <int N>
  static OP_INLINE I shl(I a) {
    return {_mm512_slli_epi32(a.v, N)};
  }
  static OP_INLINE I shl(I a, I n) { return {_mm512_sllv_epi32(a.v, n.v)}; }
  template <int N>
  static OP_INLINE I sra(I a) {
    return {_mm512_srai_epi32(a.v, N)};
  }
  template <int N>
  static OP_INLINE I srl(I a) {
    return {_mm512_srli_epi32(a.v, N)};
  }
  static OP_INLINE I to_int(F a) { return {_mm512_cvttps_epi32(a.v)}; }
  static OP_INLINE F to_float(I a) { return {_mm512_cvtepi32_ps(a.v)}; }
  static OP_INLINE I bits(F a) { return {_mm512_castps_si512(a.v)}; }
  static OP_INLINE F from_bits(I a) { return {_mm512_castsi512_ps(a.v)}; }
  static OP_INLINE std::int32_t sum_i(I a) { return _mm512_reduce_add_epi32(a.v); }

  static OP_INLINE B load_b(const void* p) { return {_mm512_loadu_si512(p)}; }
  // In a register from here on, where the compiler would read memory again at every use.
  static OP_INLINE B held(B b) {
    asm("" : "+v"(b.v));
    return b;
  }
  static OP_INLINE B set1_b(std::uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
  template <int At, int Bits, int To = 0>
  static OP_INLINE B bits_of(B a) {
    if constexpr (At > To) a.v = _mm512_srli_epi16(a.v, At - To);
    if constexpr (At < To) a.v = _mm512_slli_epi16(a.v, To - At);
    if constexpr (Bits == 8) return a;
    return {_mm512_and_si512(a.v, set1_b(((1 << Bits) - 1) << To).v)};
  }
  static OP_INLINE B or_b(B a, B b) { return {_mm512_or_si512(a.v, b.v)}; }
  static OP_INLINE void store_b(void* p, B a) { _mm512_storeu_si512(p, a.v); }
  static OP_INLINE B add_b(B a, B b) { return {_mm512_add_epi8(a.v, b.v)}; }
  static OP_INLINE B first_trit(B a) {
    const __m512i one = _mm512_set1_epi8(1);
    const __m512i low = _mm512_subs_epu8(a.v, _mm512_set1_epi8(85));
    const __m512i high = _mm512_subs_epu8(a.v, _mm512_set1_epi8(static_cast<char>(170)));
    return {_mm512_add_epi8(_mm512_min_epu8(low, one), _mm512_min_epu8(high, one))};
  }
  static OP_INLINE B repeat16(const void* p) {
    return {_mm512_broadcast_i32x4(_mm_loadu_si128(static_cast<const __m128i*>(p)))};
  }
  static OP_INLINE B lookup16(B table, B index) { return {_mm512_shuffle_epi8(table.v, index.v)}; }
  static OP_INLINE B bytes(I a) { return {a.v}; }
  static OP_INLINE I halves(I low, I high) {
    return {_mm512_mask_blend_epi16(0xaaaaaaaa, low.v, high.v)};
  }
  // A tree of lookups in 64 words.
  template <int N>
  static OP_INLINE I words_at(const std::uint16_t* table, I index) {
    if constexpr (N == 64) {
      return {_mm512_permutex2var_epi16(_mm512_load_si512(table), index.v,
                                        _mm512_load_si512(table + 32))};
    } else {
      const __mmask32 upper = _mm512_test_epi16_mask(index.v, _mm512_set1_epi16(N / 2));
      return {_mm512_mask_blend_epi16(upper, words_at<N / 2>(table, index).v,
                                      words_at<N / 2>(table + N / 2, index).v)};
    }
  }
  template <int Bits>
  static OP_INLINE I dot16(I acc, B w0, B w1, B w2, B w3, const void* x) {
    __m512i t = _mm512_dpbusd_epi32(acc.v, w0.v, four(x, 0));
    t = _mm512_dpbusd_epi32(t, w1.v, four(x, 4));
    t = _mm512_dpbusd_epi32(t, w2.v, four(x, 8));
    return {_mm512_dpbusd_epi32(t, w3.v, four(x, 12))};
  }
  static OP_INLINE I pair(std::int16_t first_value, std::int16_t second) {
    return {_mm512_set1_epi32(static_cast<std::uint16_t>(first_value) | second * 65536)};
  }
  static OP_INLINE I pair_dot(const void* s, I c) {
    return {_mm512_dpwssd_epi32(_mm512_setzero_si512(), c.v, four(s, 0))};
  }
  static OP_INLINE void scaled_sums(const void* p, std::size_t n, float* f) {
    const __mmask16 mask = static_cast<__mmask16>((1u << 2 * n) - 1u);
    const __m512i v = _mm512_maskz_loadu_epi32(mask, p);
    const __m512i s = _mm512_dpwssd_epi32(_mm512_setzero_si512(), v, _mm512_set1_epi32(0x00010001));
    const __m512 d = _mm512_castsi512_ps(_mm512_slli_epi64(v, 32));
    _mm512_storeu_ps(f, _mm512_mul_ps(d, _mm512_cvtepi32_ps(s)));
  }

 private:
  static constexpr int tree_place(int s) { return 4 * (s % 4) + s / 4; }
  static OP_INLINE __m256 high(F a) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a.v), 1));
  }
  static OP_INLINE __m512i four(const void* x, int at) {
    std::int32_t t;
    std::memcpy(&t, static_cast<const char*>(x) + at, 4);
    return _mm512_set1_epi32(t);
  }
};

}  // namespace onepass::ops::avx512

#include "ops/shared/simd16_math.h"
