// __half and __nv_bfloat16: stored as bits, every operation rounded to nearest even.
#pragma once

#include <cmath>

#include "device.h"
#include "ops/shared/scalar.h"

namespace onepass::emu {

struct HalfBits {
  static float to_float(unsigned short bits) { return ops::op_f16_to_f32(bits); }
  static unsigned short from_float(float x) {
    return static_cast<unsigned short>(ops::op_f32_to_f16(x));
  }
};
struct BfloatBits {
  static float to_float(unsigned short bits) { return ops::op_bf16_to_f32(bits); }
  static unsigned short from_float(float x) {
    return static_cast<unsigned short>(ops::op_f32_to_bf16(x));
  }
};

template <class Bits>
struct Half {
  Half() = default;
  Half(float x) : bits(Bits::from_float(x)) {}
  Half(double x) : Half(static_cast<float>(x)) {}
  Half(int x) : Half(static_cast<float>(x)) {}
  operator float() const { return Bits::to_float(bits); }
  static Half of_bits(unsigned short b) {
    Half h;
    h.bits = b;
    return h;
  }
  friend Half operator+(Half a, Half b) { return Half(float(a) + float(b)); }
  friend Half operator-(Half a, Half b) { return Half(float(a) - float(b)); }
  friend Half operator*(Half a, Half b) { return Half(float(a) * float(b)); }
  friend Half operator/(Half a, Half b) { return Half(float(a) / float(b)); }
  friend Half operator-(Half a) { return Half(-float(a)); }
  Half& operator+=(Half b) { return *this = *this + b; }
  Half& operator-=(Half b) { return *this = *this - b; }
  Half& operator*=(Half b) { return *this = *this * b; }

  unsigned short bits;
};

template <class Bits>
struct alignas(4) Half2 {
  Half2() = default;
  Half2(Half<Bits> a, Half<Bits> b) : x(a), y(b) {}
  Half<Bits> x, y;
};

}  // namespace onepass::emu

using __half = onepass::emu::Half<onepass::emu::HalfBits>;
using __half2 = onepass::emu::Half2<onepass::emu::HalfBits>;
using __nv_bfloat16 = onepass::emu::Half<onepass::emu::BfloatBits>;
using __nv_bfloat162 = onepass::emu::Half2<onepass::emu::BfloatBits>;
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

#define ONEPASS_EMU_HALVES(H, H2, to_one, from_one, from_one_rn, to_two, from_two, from_2, both, \
                           as_bits, from_bits)                                                   \
  inline float to_one(H h) { return h; }                                                         \
  inline H from_one(float x) { return H(x); }                                                    \
  inline H from_one_rn(float x) { return H(x); }                                                 \
  inline float2 to_two(H2 h) { return make_float2(h.x, h.y); }                                   \
  inline H2 from_two(float a, float b) { return H2(H(a), H(b)); }                                \
  inline H2 from_2(float2 v) { return H2(H(v.x), H(v.y)); }                                      \
  inline H2 both(H a, H b) { return H2(a, b); }                                                  \
  inline unsigned short as_bits(H h) { return h.bits; }                                          \
  inline H from_bits(unsigned short b) { return H::of_bits(b); }                                 \
  inline float __low2float(H2 h) { return h.x; }                                                 \
  inline float __high2float(H2 h) { return h.y; }                                                \
  inline H __hadd(H a, H b) { return a + b; }                                                    \
  inline H __hsub(H a, H b) { return a - b; }                                                    \
  inline H __hmul(H a, H b) { return a * b; }                                                    \
  inline H __hdiv(H a, H b) { return a / b; }                                                    \
  inline H __hneg(H a) { return -a; }                                                            \
  inline H __hmax(H a, H b) { return float(a) > float(b) ? a : b; }                              \
  inline H __hmin(H a, H b) { return float(a) < float(b) ? a : b; }                              \
  inline H __hfma(H a, H b, H c) { return H(double(a) * double(b) + double(c)); }                \
  inline H2 __hadd2(H2 a, H2 b) { return H2(a.x + b.x, a.y + b.y); }                             \
  inline H2 __hsub2(H2 a, H2 b) { return H2(a.x - b.x, a.y - b.y); }                             \
  inline H2 __hmul2(H2 a, H2 b) { return H2(a.x * b.x, a.y * b.y); }                             \
  inline H2 __hfma2(H2 a, H2 b, H2 c) { return H2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }

ONEPASS_EMU_HALVES(__half, __half2, __half2float, __float2half, __float2half_rn, __half22float2,
                   __floats2half2_rn, __float22half2_rn, __halves2half2, __half_as_ushort,
                   __ushort_as_half)
ONEPASS_EMU_HALVES(__nv_bfloat16, __nv_bfloat162, __bfloat162float, __float2bfloat16,
                   __float2bfloat16_rn, __bfloat1622float2, __floats2bfloat162_rn,
                   __float22bfloat162_rn, __halves2bfloat162, __bfloat16_as_ushort,
                   __ushort_as_bfloat16)
#undef ONEPASS_EMU_HALVES

inline __half __low2half(__half2 h) { return h.x; }
inline __half __high2half(__half2 h) { return h.y; }
inline __half2 __half2half2(__half h) { return __half2(h, h); }
inline __half2 __float2half2_rn(float x) { return __half2(__half(x), __half(x)); }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 h) { return h.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 h) { return h.y; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 h) { return __nv_bfloat162(h, h); }
inline short __half_as_short(__half h) { return static_cast<short>(h.bits); }
inline __half __short_as_half(short b) { return __half::of_bits(static_cast<unsigned short>(b)); }
