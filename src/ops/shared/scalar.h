// Scalar maths of every kernel, in f32 without library calls other than sqrt: the same text gives
// the same bits wherever products and sums are not contracted.
#ifndef ONEPASS_OPS_SHARED_SCALAR_H_
#define ONEPASS_OPS_SHARED_SCALAR_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// e^r - 1 for |r| <= 0.35, relative error below 1e-7.
OP_FN float op_expm1_small(float r) {
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  return r + r * r * p;
}

// t = n ln 2 + r with an integer n and |r| <= 0.35, for |t| < 2^14.
struct OpReduced {
  float n;
  float r;
};
OP_FN OpReduced op_reduce_exp(float t) {
  OpReduced x;
  // Adding 1.5 * 2^23 rounds to an integer.
  x.n = (t * 1.44269504f + 12582912.0f) - 12582912.0f;
  // ln 2 in two parts; the first has 15 bits, so that its product with n is exact.
  x.r = (t - x.n * 0.693145752f) - x.n * 1.42860677e-6f;
  return x;
}

// Within 2 ulp; subnormal results included, overflow gives infinity.
OP_FN float op_exp(float x) {
  float t = x < 89.0f ? x : 89.0f;
  t = t > -104.0f ? t : -104.0f;
  OpReduced q = op_reduce_exp(t);
  op_i32 e = op_to_int(q.n);
  // 2^e in two factors: each is a normal number for -150 <= e <= 129.
  op_i32 low = e >> 1;
  float a = op_from_bits(op_u32(low + 127) << 23);
  float b = op_from_bits(op_u32(e - low + 127) << 23);
  float y = (1.0f + op_expm1_small(q.r)) * a * b;
  return x != x ? x : y;
}

// (e^2x - 1) / (e^2x + 1), with e^2x - 1 computed without cancellation. Within 4 ulp.
OP_FN float op_tanh(float x) {
  float a = x < 0.0f ? -x : x;
  OpReduced q = op_reduce_exp(2.0f * (a < 10.0f ? a : 10.0f));
  float power = op_from_bits(op_u32(op_to_int(q.n) + 127) << 23);
  float m = (power - 1.0f) + power * op_expm1_small(q.r);
  float y = m / (m + 2.0f);
  y = x < 0.0f ? -y : y;
  return x != x ? x : y;
}

OP_FN float op_sigmoid(float x) { return 1.0f / (1.0f + op_exp(-x)); }

OP_FN float op_silu(float x) { return x / (1.0f + op_exp(-x)); }

// The square of what is positive.
OP_FN float op_relu2(float x) {
  float a = x < 0.0f ? 0.0f : x;
  return a * a;
}

// The tanh form. The clamp keeps infinities of x^3 away from tanh.
OP_FN float op_gelu(float x) {
  float u = 0.797884583f * (x + 0.044715f * x * x * x);
  u = u > 15.0f ? 15.0f : u;
  u = u < -15.0f ? -15.0f : u;
  return 0.5f * x * (1.0f + op_tanh(u));
}

// x times the normal distribution function. Its lower tail is t p(t) e^(-x^2 / 2) with
// t = 1 / (1 + |x| / sqrt(8)) and a polynomial p fitted to 5e-8: nothing cancels.
OP_FN float op_gelu_erf(float x) {
  float a = x < 0.0f ? -x : x;
  float t = 1.0f / (1.0f + 0.353553391f * a);
  float p = -0.0602052100f;
  p = p * t + 0.289904326f;
  p = p * t - 0.497749925f;
  p = p * t + 0.289532691f;
  p = p * t - 0.0340736806f;
  p = p * t + 0.205633968f;
  p = p * t + 0.242413431f;
  p = p * t + 0.282462448f;
  p = p * t + 0.282081902f;
  float tail = 0.5f * (t * p) * op_exp(-0.5f * a * a);
  return x * (x < 0.0f ? tail : 1.0f - tail);
}

OP_FN float op_softcap(float x, float cap) { return cap * op_tanh(x / cap); }

// A number as an unevaluated sum hi + lo: about 45 bits.
struct OpPair {
  float hi;
  float lo;
};

OP_FN OpPair op_two_sum(float a, float b) {
  OpPair s;
  s.hi = a + b;
  float t = s.hi - a;
  s.lo = (a - (s.hi - t)) + (b - t);
  return s;
}

// Exact product, by cutting both factors in halves of 12 bits.
OP_FN OpPair op_two_product(float a, float b) {
  float ta = a * 4097.0f;
  float ah = ta - (ta - a);
  float al = a - ah;
  float tb = b * 4097.0f;
  float bh = tb - (tb - b);
  float bl = b - bh;
  OpPair p;
  p.hi = a * b;
  p.lo = ((ah * bh - p.hi) + ah * bl + al * bh) + al * bl;
  return p;
}

OP_FN OpPair op_pair_mul(OpPair a, OpPair b) {
  OpPair p = op_two_product(a.hi, b.hi);
  return op_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

OP_FN OpPair op_pair_div(OpPair a, float b) {
  float q = a.hi / b;
  OpPair p = op_two_product(q, b);
  return op_two_sum(q, ((a.hi - p.hi) - p.lo + a.lo) / b);
}

OP_FN OpPair op_pair(float hi, float lo) {
  OpPair p;
  p.hi = hi;
  p.lo = lo;
  return p;
}

// base^n by squaring.
OP_FN OpPair op_pair_pow(OpPair base, op_u32 n) {
  OpPair y = op_pair(1.0f, 0.0f);
  for (; n != 0u; n >>= 1) {
    if ((n & 1u) != 0u) y = op_pair_mul(y, base);
    base = op_pair_mul(base, base);
  }
  return y;
}

// x less its integer part; 0 for numbers too large to have a fraction, and for NaN.
OP_FN float op_fraction(float x) {
  float a = x < 0.0f ? -x : x;
  float t = a < 8388608.0f ? x : 0.0f;
  return t - op_from_int(op_to_int(t));
}

// Turns per position of pair i: ratio^i / factor / (2 pi).
OP_FN OpPair op_rope_frequency(op_u32 i, float ratio_hi, float ratio_lo, float factor) {
  OpPair f = op_pair_div(op_pair_pow(op_pair(ratio_hi, ratio_lo), i), factor);
  return op_pair_mul(f, op_pair(0.159154937f, 6.42063824e-9f));  // 1 / (2 pi)
}

// What YaRN multiplies the frequency of pair i by: freq_scale (1 - r) + r, where r falls from
// ext_factor to 0 between the pairs low and low + range. ext_factor = 0: freq_scale.
OP_FN OpPair op_yarn_scale(op_u32 i, float freq_scale, float ext_factor, float low, float range) {
  OpPair ramp = op_pair_div(op_pair(op_from_uint(i) - low, 0.0f), range);
  if (!(ramp.hi > 0.0f)) ramp = op_pair(0.0f, 0.0f);
  if (ramp.hi >= 1.0f) ramp = op_pair(1.0f, 0.0f);
  OpPair rest = op_two_sum(1.0f, -ramp.hi);
  rest.lo = rest.lo - ramp.lo;
  OpPair r = op_pair_mul(op_pair(ext_factor, 0.0f), rest);
  OpPair keep = op_two_sum(1.0f, -r.hi);
  keep.lo = keep.lo - r.lo;
  OpPair scaled = op_pair_mul(op_pair(freq_scale, 0.0f), keep);
  OpPair sum = op_two_sum(scaled.hi, r.hi);
  return op_two_sum(sum.hi, sum.lo + (scaled.lo + r.lo));
}

// Turns at a position, within [-0.5, 0.5]. Plain f32 would be off by a tenth of a radian at
// position 100,000.
OP_FN float op_turns(OpPair frequency, op_u32 position) {
  OpPair pos = op_two_sum(op_from_uint(position & 0xffff0000u), op_from_uint(position & 0xffffu));
  OpPair t = op_pair_mul(frequency, pos);
  float f = op_fraction(t.hi) + op_fraction(t.lo);
  return f - ((f + 12582912.0f) - 12582912.0f);
}

OP_FN float op_rope_turns(op_u32 position, op_u32 i, float ratio_hi, float ratio_lo, float factor) {
  return op_turns(op_rope_frequency(i, ratio_hi, ratio_lo, factor), position);
}

// Cosine (hi) and sine (lo) of an angle in turns, |turns| <= 0.5; absolute error below 2e-7.
OP_FN OpPair op_cos_sin_turns(float turns) {
  float q = (turns * 4.0f + 12582912.0f) - 12582912.0f;  // quarter, -2 .. 2
  float y = (turns - q * 0.25f) * 6.28318531f;           // |y| <= pi / 4
  float z = y * y;
  float s = 1.0f / 362880.0f;
  s = s * z - 1.0f / 5040.0f;
  s = s * z + 1.0f / 120.0f;
  s = s * z - 1.0f / 6.0f;
  s = y + y * z * s;
  float c = -1.0f / 3628800.0f;
  c = c * z + 1.0f / 40320.0f;
  c = c * z - 1.0f / 720.0f;
  c = c * z + 1.0f / 24.0f;
  c = c * z - 0.5f;
  c = 1.0f + z * c;
  op_i32 k = op_to_int(q) & 3;
  if (k == 0) return op_pair(c, s);
  if (k == 1) return op_pair(-s, c);
  if (k == 2) return op_pair(-c, -s);
  return op_pair(s, -c);
}

OP_FN float op_f16_to_f32(op_u32 h) {
  // 2^112 moves the exponent from f16's bias to f32's and normalises subnormals.
  float magnitude = op_from_bits((h & 0x7fffu) << 13) * 5.19229686e33f;
  op_u32 special = (h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
  return op_from_bits(op_to_bits(magnitude) | special | ((h & 0x8000u) << 16));
}

// Round to nearest, ties to even. A NaN stays one.
OP_FN op_u32 op_f32_to_f16(float x) {
  op_u32 bits = op_to_bits(x);
  op_u32 sign = (bits >> 16) & 0x8000u;
  op_u32 a = bits & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u | ((a >> 13) & 0x1ffu);
  if (a >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above
  if (a < 0x38800000u) {
    // Below 2^-14: one unit of the sum with 0.5 is f16's smallest subnormal.
    return sign | (op_to_bits(op_from_bits(a) + 0.5f) - 0x3f000000u);
  }
  return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13);
}

OP_FN float op_bf16_to_f32(op_u32 h) { return op_from_bits(h << 16); }

OP_FN op_u32 op_f32_to_bf16(float x) {
  op_u32 bits = op_to_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_SHARED_SCALAR_H_
