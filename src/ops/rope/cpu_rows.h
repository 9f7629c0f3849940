// Angles and rotations: lane-wise copies of the pair arithmetic of scalar.h.
#pragma once

#include "ops/shared/simd16_rows.h"

namespace onepass::ops::OP_ISA {

// Sixteen numbers, each an unevaluated sum hi + lo of about 45 bits (OpPair of scalar.h): at
// position 100,000 an angle in plain f32 would be off by a tenth of a radian.
struct Pairs16 {
  Simd::F hi, lo;
};

// a + b without error.
OP_INLINE Pairs16 two_sum(Simd::F a, Simd::F b) {
  using S = Simd;
  const S::F hi = S::add(a, b);
  const S::F t = S::sub(hi, a);
  return {hi, S::add(S::sub(a, S::sub(hi, t)), S::sub(b, t))};
}

// a * b without error: both factors are cut in halves of 12 bits, whose products are exact.
OP_INLINE Pairs16 two_product(Simd::F a, Simd::F b) {
  using S = Simd;
  const S::F split = S::set1(4097.0f);
  const S::F ta = S::mul(a, split), ah = S::sub(ta, S::sub(ta, a)), al = S::sub(a, ah);
  const S::F tb = S::mul(b, split), bh = S::sub(tb, S::sub(tb, b)), bl = S::sub(b, bh);
  const S::F hi = S::mul(a, b);
  const S::F part = S::add(S::add(S::sub(S::mul(ah, bh), hi), S::mul(ah, bl)), S::mul(al, bh));
  return {hi, S::add(part, S::mul(al, bl))};
}

OP_INLINE Pairs16 pair_mul(Pairs16 a, Pairs16 b) {
  using S = Simd;
  const Pairs16 p = two_product(a.hi, b.hi);
  return two_sum(p.hi, S::add(p.lo, S::add(S::mul(a.hi, b.lo), S::mul(a.lo, b.hi))));
}

OP_INLINE Pairs16 pair_div(Pairs16 a, Simd::F b) {
  using S = Simd;
  const S::F q = S::div(a.hi, b);
  const Pairs16 p = two_product(q, b);
  return two_sum(q, S::div(S::add(S::sub(S::sub(a.hi, p.hi), p.lo), a.lo), b));
}

OP_INLINE Pairs16 select_pairs(Simd::M m, Pairs16 a, Pairs16 b) {
  return {Simd::select(m, a.hi, b.hi), Simd::select(m, a.lo, b.lo)};
}

// ratio^i for 16 pairs from i0. The powers of two are the same for all lanes.
OP_INLINE Pairs16 pair_powers(float ratio_hi, float ratio_lo, std::uint32_t i0) {
  using S = Simd;
  const S::I lane = S::add(S::iota(), S::set1_i(static_cast<std::int32_t>(i0)));
  Pairs16 y = {S::set1(1.0f), S::zero()};
  OpPair base = op_pair(ratio_hi, ratio_lo);
  for (std::uint32_t bit = 1; bit != 0 && bit <= i0 + 15; bit <<= 1) {
    const S::I taken = S::bit_and(lane, S::set1_i(static_cast<std::int32_t>(bit)));
    const S::M m = S::gt(S::to_float(taken), S::zero());
    y = select_pairs(m, pair_mul(y, {S::set1(base.hi), S::set1(base.lo)}), y);
    base = op_pair_mul(base, base);
  }
  return y;
}

// What YaRN multiplies the frequencies of 16 pairs from i0 by (op_yarn_scale of scalar.h).
OP_INLINE Pairs16 yarn_scales(const RopeAngles& p, std::uint32_t i0) {
  using S = Simd;
  const S::F one = S::set1(1.0f), zero = S::zero();
  const S::F i = S::to_float(S::add(S::iota(), S::set1_i(static_cast<std::int32_t>(i0))));
  Pairs16 ramp = pair_div({S::sub(i, S::set1(p.yarn_low)), zero}, S::set1(p.yarn_range));
  ramp = select_pairs(S::gt(ramp.hi, zero), ramp, {zero, zero});
  ramp = select_pairs(S::ge(ramp.hi, one), {one, zero}, ramp);
  Pairs16 rest = two_sum(one, S::neg(ramp.hi));
  rest.lo = S::sub(rest.lo, ramp.lo);
  const Pairs16 r = pair_mul({S::set1(p.ext_factor), zero}, rest);
  Pairs16 keep = two_sum(one, S::neg(r.hi));
  keep.lo = S::sub(keep.lo, r.lo);
  const Pairs16 scaled = pair_mul({S::set1(p.freq_scale), zero}, keep);
  const Pairs16 sum = two_sum(scaled.hi, r.hi);
  return two_sum(sum.hi, S::add(sum.lo, S::add(scaled.lo, r.lo)));
}

// x less its integer part; 0 from 2^23 on, where f32 has no fractions.
OP_INLINE Simd::F fraction(Simd::F x) {
  using S = Simd;
  const S::F t = S::select(S::lt(S::abs(x), S::set1(8388608.0f)), x, S::zero());
  return S::sub(t, S::to_float(S::to_int(t)));
}

inline constexpr std::size_t table_pairs = 256;

// Turns per position of up to table_pairs pairs.
struct RopeFrequencies {
  float hi[table_pairs], lo[table_pairs];
};

// Cosines and sines of one row. Interleaved pairs: both for each element, the sine with the sign of
// its product.
struct RopeRow {
  float cosine[2 * table_pairs], sine[2 * table_pairs];
};

// Pairs [begin, begin + n). factors may be null.
OP_NOINLINE inline void rope_frequencies(const RopeAngles& p, const float* factors,
                                         std::uint32_t begin, std::uint32_t n, RopeFrequencies& t) {
  using S = Simd;
  for (std::uint32_t i = 0; i < n; i += 16) {
    Pairs16 f = pair_powers(p.ratio_hi, p.ratio_lo, begin + i);
    S::F factor = S::set1(1.0f);
    if (factors != nullptr) factor = load_some(factors + begin + i, lanes_left(i, n));
    f = pair_div(f, factor);
    f = pair_mul(f, {S::set1(0.159154937f), S::set1(6.42063824e-9f)});
    f = pair_mul(f, yarn_scales(p, begin + i));
    S::store(t.hi + i, f.hi);
    S::store(t.lo + i, f.lo);
  }
}

// Cosine (hi) and sine (lo) of |turns| <= 0.5: the nearest quarter turn q, the series of cosine and
// sine in the rest y (radians, |y| <= pi / 4), and by q which of the two is which, and its sign.
OP_INLINE Pairs16 cos_sin(Simd::F turns) {
  using S = Simd;
  // Adding 1.5 * 2^23 rounds to an integer.
  const S::F magic = S::set1(12582912.0f);
  const S::F q = S::sub(S::add(S::mul(turns, S::set1(4.0f)), magic), magic);
  const S::F y = S::mul(S::sub(turns, S::mul(q, S::set1(0.25f))), S::set1(6.28318531f));
  const S::F z = S::mul(y, y);
  S::F s = S::set1(1.0f / 362880.0f);
  s = S::sub(S::mul(s, z), S::set1(1.0f / 5040.0f));
  s = S::add(S::mul(s, z), S::set1(1.0f / 120.0f));
  s = S::sub(S::mul(s, z), S::set1(1.0f / 6.0f));
  s = S::add(y, S::mul(S::mul(y, z), s));
  S::F c = S::set1(-1.0f / 3628800.0f);
  c = S::add(S::mul(c, z), S::set1(1.0f / 40320.0f));
  c = S::sub(S::mul(c, z), S::set1(1.0f / 720.0f));
  c = S::add(S::mul(c, z), S::set1(1.0f / 24.0f));
  c = S::sub(S::mul(c, z), S::set1(0.5f));
  c = S::add(S::set1(1.0f), S::mul(z, c));
  const S::M at_0 = S::eq(q, S::zero()), at_1 = S::eq(q, S::set1(1.0f));
  const S::M at_3 = S::eq(q, S::set1(-1.0f));
  const S::F cosine = S::select(at_0, c, S::select(at_1, S::neg(s), S::select(at_3, s, S::neg(c))));
  const S::F sine = S::select(at_0, s, S::select(at_1, c, S::select(at_3, S::neg(c), S::neg(s))));
  return {cosine, sine};
}

// The turns at a position are frequency * position; only their fraction matters, brought to
// [-0.5, 0.5]. The position is two numbers of 16 bits, because f32 does not hold all of 32.
OP_NOINLINE inline void rope_row(const RopeAngles& p, const RopeFrequencies& t, std::uint32_t n,
                                 std::uint32_t position, RopeRow& row) {
  using S = Simd;
  const OpPair at =
      op_two_sum(op_from_uint(position & 0xffff0000u), op_from_uint(position & 0xffffu));
  const S::F magic = S::set1(12582912.0f), magnitude = S::set1(p.magnitude);
  for (std::uint32_t i = 0; i < n; i += 16) {
    const Pairs16 turns =
        pair_mul({S::load(t.hi + i), S::load(t.lo + i)}, {S::set1(at.hi), S::set1(at.lo)});
    const S::F f = S::add(fraction(turns.hi), fraction(turns.lo));
    const Pairs16 cs = cos_sin(S::sub(f, S::sub(S::add(f, magic), magic)));
    const S::F cosine = S::mul(cs.hi, magnitude), sine = S::mul(cs.lo, magnitude);
    if (p.step == 1) {
      S::store(row.cosine + i, cosine);
      S::store(row.sine + i, sine);
    } else {
      float c[16], s[16];
      S::store(c, cosine);
      S::store(s, sine);
      for (std::uint32_t j = 0; j < 16; ++j) {
        row.cosine[2 * (i + j)] = row.cosine[2 * (i + j) + 1] = c[j];
        row.sine[2 * (i + j)] = -s[j];
        row.sine[2 * (i + j) + 1] = s[j];
      }
    }
  }
}

// Rotates pairs [begin, begin + n) of one head in place: (x0 c - x1 s, x0 s + x1 c).
template <class T>
OP_INLINE void rotate_head(const RopeAngles& p, const RopeRow& row, std::uint32_t begin,
                           std::uint32_t n, T* head) {
  using S = Simd;
  if (p.step == 1) {
    for (std::uint32_t i = 0; i < n; i += 16) {
      const std::size_t lanes = lanes_left(i, n);
      T* at = head + begin + i;
      const S::F x0 = load_some(at, lanes), x1 = load_some(at + p.distance, lanes);
      const S::F c = S::load(row.cosine + i), s = S::load(row.sine + i);
      store_some(at, S::sub(S::mul(x0, c), S::mul(x1, s)), lanes);
      store_some(at + p.distance, S::add(S::mul(x0, s), S::mul(x1, c)), lanes);
    }
  } else {
    for (std::uint32_t i = 0; i < 2 * n; i += 16) {
      const std::size_t lanes = lanes_left(i, 2 * n);
      T* at = head + 2 * begin + i;
      const S::F x = load_some(at, lanes);
      const S::F y = S::add(S::mul(x, S::load(row.cosine + i)),
                            S::mul(S::swap_pairs(x), S::load(row.sine + i)));
      store_some(at, y, lanes);
    }
  }
}

}  // namespace onepass::ops::OP_ISA
