// Simd with NEON and its dot product: four registers of 128 bits.
// Functions up to end_isa.h are compiled for NEON with the dot product. The assembler knows that
// one from Armv8.2 on only.
#define OP_ISA neon
#define OP_ISA_POP 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

namespace onepass::ops::neon {

struct Simd {
  struct F {
    float32x4_t v[4];
  };
  struct I {
    int32x4_t v[4];
  };
  struct B {
    uint8x16_t v[4];
  };
  struct M {
    uint32x4_t v[4];
  };
  static constexpr int max_rows = 4;
  static constexpr bool dots_bytes = false;

#define OP_EACH(f)             \
  {                            \
    { f(0), f(1), f(2), f(3) } \
  }
  static OP_INLINE F zero() { return set1(0.0f); }
  static OP_INLINE F set1(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return {{v, v, v, v}};
  }
  static OP_INLINE F load(const void* p) {
    const float* f = static_cast<const float*>(p);
    return {{vld1q_f32(f), vld1q_f32(f + 4), vld1q_f32(f + 8), vld1q_f32(f + 12)}};
  }
  static OP_INLINE F load_part(const void* p, std::size_t n) {
    float t[16] = {};
    std::memcpy(t, p, 4 * n);
    return load(t);
  }
  static OP_INLINE void store(void* p, F a) {
    float* f = static_cast<float*>(p);
    vst1q_f32(f, a.v[0]);
    vst1q_f32(f + 4, a.v[1]);
    vst1q_f32(f + 8, a.v[2]);
    vst1q_f32(f + 12, a.v[3]);
  }
  static OP_INLINE void store_part(void* p, F a, std::size_t n) {
    float t[16];
    store(t, a);
    std::memcpy(p, t, 4 * n);
  }
  static OP_INLINE F load_f16(const void* p) {
    const std::uint16_t* h = static_cast<const std::uint16_t*>(p);
#define OP_F(i) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(h + 4 * i)))
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE F load_bf16(const void* p) {
    const std::uint16_t* h = static_cast<const std::uint16_t*>(p);
#define OP_F(i) vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(h + 4 * i), 16))
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE void store_f16(void* p, F a) {
    std::uint16_t* h = static_cast<std::uint16_t*>(p);
    for (int i = 0; i < 4; ++i) vst1_u16(h + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
  }
  static OP_INLINE void store_bf16(void* p, F a) {
    std::uint16_t* h = static_cast<std::uint16_t*>(p);
    for (int i = 0; i < 4; ++i) {
      const uint32x4_t x = vreinterpretq_u32_f32(a.v[i]);
      const uint32x4_t odd = vandq_u32(vshrq_n_u32(x, 16), vdupq_n_u32(1));
      const uint32x4_t rounded = vaddq_u32(vaddq_u32(x, vdupq_n_u32(0x7fff)), odd);
      const uint32x4_t quiet = vorrq_u32(x, vdupq_n_u32(0x400000));
      const uint32x4_t y = vbslq_u32(vceqq_f32(a.v[i], a.v[i]), rounded, quiet);
      vst1_u16(h + 4 * i, vshrn_n_u32(y, 16));
    }
  }

#define OP_BINARY(T, name, f)                                                              \
  static OP_INLINE T name(T a, T b) {                                                      \
    return {{f(a.v[0], b.v[0]), f(a.v[1], b.v[1]), f(a.v[2], b.v[2]), f(a.v[3], b.v[3])}}; \
  }
  OP_BINARY(F, add, vaddq_f32)
  OP_BINARY(F, sub, vsubq_f32)
  OP_BINARY(F, mul, vmulq_f32)
  OP_BINARY(F, div, vdivq_f32)
  OP_BINARY(F, min, min4)
  OP_BINARY(F, max, max4)
  OP_BINARY(I, add, vaddq_s32)
  OP_BINARY(I, sub, vsubq_s32)
  OP_BINARY(I, bit_and, vandq_s32)
  OP_BINARY(I, bit_or, vorrq_s32)
  OP_BINARY(B, or_b, vorrq_u8)
  OP_BINARY(B, add_b, vaddq_u8)
#undef OP_BINARY
  static OP_INLINE F fma(F a, F b, F c) {
#define OP_F(i) vfmaq_f32(c.v[i], a.v[i], b.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE F fnma(F a, F b, F c) {
#define OP_F(i) vfmsq_f32(c.v[i], a.v[i], b.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE F neg(F a) {
#define OP_F(i) vnegq_f32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE F abs(F a) {
#define OP_F(i) vabsq_f32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE F sqrt(F a) {
#define OP_F(i) vsqrtq_f32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE F round_even(F a) {
#define OP_F(i) vrndnq_f32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }

#define OP_COMPARE(name, f)                                                                \
  static OP_INLINE M name(F a, F b) {                                                      \
    return {{f(a.v[0], b.v[0]), f(a.v[1], b.v[1]), f(a.v[2], b.v[2]), f(a.v[3], b.v[3])}}; \
  }
  OP_COMPARE(lt, vcltq_f32)
  OP_COMPARE(gt, vcgtq_f32)
  OP_COMPARE(le, vcleq_f32)
  OP_COMPARE(ge, vcgeq_f32)
  OP_COMPARE(eq, vceqq_f32)
#undef OP_COMPARE
  static OP_INLINE M is_nan(F a) {
#define OP_F(i) vmvnq_u32(vceqq_f32(a.v[i], a.v[i]))
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE F select(M m, F a, F b) {
#define OP_F(i) vbslq_f32(m.v[i], a.v[i], b.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }

  static OP_INLINE float sum(F a) {
    const float32x4_t q = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
    const float32x2_t d = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
  }
  static OP_INLINE float max_lane(F a) {
    const float32x4_t q = max4(max4(a.v[0], a.v[2]), max4(a.v[1], a.v[3]));
    const float x0 = vgetq_lane_f32(q, 0), x1 = vgetq_lane_f32(q, 1);
    const float x2 = vgetq_lane_f32(q, 2), x3 = vgetq_lane_f32(q, 3);
    const float y0 = x0 > x2 ? x0 : x2, y1 = x1 > x3 ? x1 : x3;
    return y0 > y1 ? y0 : y1;
  }

  static OP_INLINE F sums(const F* a) {
    float t[16];
    for (int i = 0; i < 16; ++i) t[i] = sum(a[i]);
    return load(t);
  }
  static OP_INLINE F swap_pairs(F a) {
#define OP_F(i) vrev64q_f32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }

  static OP_INLINE I set1_i(std::int32_t x) {
    const int32x4_t v = vdupq_n_s32(x);
    return {{v, v, v, v}};
  }
  static OP_INLINE I iota() {
    const std::int32_t t[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return load_i(t);
  }
  static OP_INLINE I load_i(const void* p) {
    const std::int32_t* t = static_cast<const std::int32_t*>(p);
    return {{vld1q_s32(t), vld1q_s32(t + 4), vld1q_s32(t + 8), vld1q_s32(t + 12)}};
  }
  static OP_INLINE void store_i(void* p, I a) {
    std::int32_t* t = static_cast<std::int32_t*>(p);
    for (int i = 0; i < 4; ++i) vst1q_s32(t + 4 * i, a.v[i]);
  }
  static OP_INLINE I load_i8(const void* p) {
    const int8x16_t t = vld1q_s8(static_cast<const std::int8_t*>(p));
    const int16x8_t lo = vmovl_s8(vget_low_s8(t)), hi = vmovl_s8(vget_high_s8(t));
    return {{vmovl_s16(vget_low_s16(lo)), vmovl_s16(vget_high_s16(lo)), vmovl_s16(vget_low_s16(hi)),
             vmovl_s16(vget_high_s16(hi))}};
  }
  static OP_INLINE I load_u8(const void* p) {
    const uint8x16_t t = vld1q_u8(static_cast<const std::uint8_t*>(p));
    const uint16x8_t lo = vmovl_u8(vget_low_u8(t)), hi = vmovl_u8(vget_high_u8(t));
    return {{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(lo))),
             vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(lo))),
             vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(hi))),
             vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(hi)))}};
  }
  static OP_INLINE void store_i8(void* p, I a) {
    const int16x8_t lo = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
    const int16x8_t hi = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
    vst1q_s8(static_cast<std::int8_t*>(p), vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
  }
  template <int N>
  static OP_INLINE I shl(I a) {
#define OP_F(i) vshlq_n_s32(a.v[i], N)
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE I shl(I a, I n) {
#define OP_F(i) vshlq_s32(a.v[i], n.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  template <int N>
  static OP_INLINE I sra(I a) {
#define OP_F(i) vshrq_n_s32(a.v[i], N)
    return OP_EACH(OP_F);
#undef OP_F
  }
  template <int N>
  static OP_INLINE I srl(I a) {
#define OP_F(i) vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a.v[i]), N))
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE I to_int(F a) {
#define OP_F(i) vcvtq_s32_f32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE F to_float(I a) {
#define OP_F(i) vcvtq_f32_s32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE I bits(F a) {
#define OP_F(i) vreinterpretq_s32_f32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE F from_bits(I a) {
#define OP_F(i) vreinterpretq_f32_s32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE std::int32_t sum_i(I a) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[2]), vaddq_s32(a.v[1], a.v[3])));
  }

  static OP_INLINE B load_b(const void* p) {
    const std::uint8_t* t = static_cast<const std::uint8_t*>(p);
    return {{vld1q_u8(t), vld1q_u8(t + 16), vld1q_u8(t + 32), vld1q_u8(t + 48)}};
  }
  static OP_INLINE B held(B b) { return b; }
  static OP_INLINE B set1_b(std::uint8_t x) {
    const uint8x16_t v = vdupq_n_u8(x);
    return {{v, v, v, v}};
  }
  template <int At, int Bits, int To = 0>
  static OP_INLINE B bits_of(B a) {
    constexpr int mask = ((1 << Bits) - 1) << To;
    for (int i = 0; i < 4; ++i) {
      if constexpr (At > To) a.v[i] = vshrq_n_u8(a.v[i], At - To);
      if constexpr (At < To) a.v[i] = vshlq_n_u8(a.v[i], To - At);
      if constexpr (Bits < 8) a.v[i] = vandq_u8(a.v[i], vdupq_n_u8(mask));
    }
    return a;
  }
  static OP_INLINE void store_b(void* p, B a) {
    for (int i = 0; i < 4; ++i) vst1q_u8(static_cast<std::uint8_t*>(p) + 16 * i, a.v[i]);
  }
  static OP_INLINE B first_trit(B a) {
    // Comparisons give 255: minus one.
    const uint8x16_t low = vdupq_n_u8(85), high = vdupq_n_u8(170);
#define OP_F(i) vsubq_u8(vdupq_n_u8(0), vaddq_u8(vcgtq_u8(a.v[i], low), vcgtq_u8(a.v[i], high)))
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE B repeat16(const void* p) {
    const uint8x16_t v = vld1q_u8(static_cast<const std::uint8_t*>(p));
    return {{v, v, v, v}};
  }
  static OP_INLINE B lookup16(B table, B index) {
#define OP_F(i) vqtbl1q_u8(table.v[i], index.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE B bytes(I a) {
#define OP_F(i) vreinterpretq_u8_s32(a.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  static OP_INLINE I halves(I low, I high) {
    const uint32x4_t lower = vdupq_n_u32(0xffffu);
#define OP_F(i) vbslq_s32(lower, low.v[i], high.v[i])
    return OP_EACH(OP_F);
#undef OP_F
  }
  template <int N>
  static OP_INLINE I words_at(const std::uint16_t* table, I index) {
    std::uint16_t words[32];
    std::memcpy(words, &index, 64);
    for (int i = 0; i < 32; ++i) words[i] = table[words[i]];
    return load_i(words);
  }
  template <int Bits>
  static OP_INLINE I dot16(I acc, B w0, B w1, B w2, B w3, const void* x) {
    const int8x16_t q = vld1q_s8(static_cast<const std::int8_t*>(x));
    if constexpr (Bits < 8) {
      for (int i = 0; i < 4; ++i) acc.v[i] = dot4(acc.v[i], w0, w1, w2, w3, q, i, 0);
    } else {
      // w = (w - 128) + 128 with a signed first part.
      const int8x16_t low = vdupq_n_s8(-128);
      int32x4_t offset = sdot<0>(vdupq_n_s32(0), low, q);
      offset = sdot<1>(offset, low, q);
      offset = sdot<2>(offset, low, q);
      offset = sdot<3>(offset, low, q);
      for (int i = 0; i < 4; ++i) {
        acc.v[i] = vsubq_s32(dot4(acc.v[i], w0, w1, w2, w3, q, i, 0x80), offset);
      }
    }
    return acc;
  }
  static OP_INLINE I pair(std::int16_t first, std::int16_t second) {
    return set1_i(static_cast<std::uint16_t>(first) | second * 65536);
  }
  static OP_INLINE I pair_dot(const void* s, I c) {
    std::int16_t t[2];
    std::memcpy(t, s, 4);
    const I first = sra<16>(shl<16>(c)), second = sra<16>(c);
#define OP_F(i) vmlaq_n_s32(vmulq_n_s32(first.v[i], t[0]), second.v[i], t[1])
    return OP_EACH(OP_F);
#undef OP_F
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
#undef OP_EACH

 private:
  // Lane i of acc plus the product of four bytes of w with the four bytes of group L of q. Some
  // versions of arm_neon.h offer the intrinsic only where the whole file is compiled for it.
  template <int L>
  static OP_INLINE int32x4_t sdot(int32x4_t acc, int8x16_t w, int8x16_t q) {
    __asm__("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(acc) : "w"(w), "w"(q), "i"(L));
    return acc;
  }
  static OP_INLINE float32x4_t min4(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
  }
  static OP_INLINE float32x4_t max4(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
  }
  static OP_INLINE int32x4_t dot4(int32x4_t acc, const B& w0, const B& w1, const B& w2, const B& w3,
                                  int8x16_t q, int i, std::uint8_t flip) {
    const uint8x16_t f = vdupq_n_u8(flip);
    acc = sdot<0>(acc, vreinterpretq_s8_u8(veorq_u8(w0.v[i], f)), q);
    acc = sdot<1>(acc, vreinterpretq_s8_u8(veorq_u8(w1.v[i], f)), q);
    acc = sdot<2>(acc, vreinterpretq_s8_u8(veorq_u8(w2.v[i], f)), q);
    return sdot<3>(acc, vreinterpretq_s8_u8(veorq_u8(w3.v[i], f)), q);
  }
};

}  // namespace onepass::ops::neon

#include "ops/shared/simd16_math.h"
