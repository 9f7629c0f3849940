// Lane-wise copies of the functions of scalar.h, operation by operation. Included by the
// simd16_*.h headers, once for each instruction set.

namespace onepass::ops::OP_ISA {

OP_INLINE Simd::F expm1_small(Simd::F r) {
  using S = Simd;
  S::F p = S::set1(1.0f / 5040.0f);
  p = S::add(S::mul(p, r), S::set1(1.0f / 720.0f));
  p = S::add(S::mul(p, r), S::set1(1.0f / 120.0f));
  p = S::add(S::mul(p, r), S::set1(1.0f / 24.0f));
  p = S::add(S::mul(p, r), S::set1(1.0f / 6.0f));
  p = S::add(S::mul(p, r), S::set1(0.5f));
  return S::add(r, S::mul(S::mul(r, r), p));
}

struct Reduced {
  Simd::F n, r;
};
OP_INLINE Reduced reduce_exp(Simd::F t) {
  using S = Simd;
  const S::F magic = S::set1(12582912.0f);
  const S::F n = S::sub(S::add(S::mul(t, S::set1(1.44269504f)), magic), magic);
  const S::F r =
      S::sub(S::sub(t, S::mul(n, S::set1(0.693145752f))), S::mul(n, S::set1(1.42860677e-6f)));
  return {n, r};
}

// 2^e for integers within the normal range.
OP_INLINE Simd::F power_of_two(Simd::I e) {
  using S = Simd;
  return S::from_bits(S::shl<23>(S::add(e, S::set1_i(127))));
}

OP_INLINE Simd::F exp(Simd::F x) {
  using S = Simd;
  const S::F t = S::max(S::min(x, S::set1(89.0f)), S::set1(-104.0f));
  const Reduced q = reduce_exp(t);
  const S::I e = S::to_int(q.n);
  const S::I low = S::sra<1>(e);
  const S::F a = power_of_two(low), b = power_of_two(S::sub(e, low));
  const S::F y = S::mul(S::mul(S::add(S::set1(1.0f), expm1_small(q.r)), a), b);
  return S::select(S::is_nan(x), x, y);
}

OP_INLINE Simd::F tanh(Simd::F x) {
  using S = Simd;
  const S::M negative = S::lt(x, S::zero());
  const S::F a = S::select(negative, S::neg(x), x);
  const Reduced q = reduce_exp(S::mul(S::set1(2.0f), S::min(a, S::set1(10.0f))));
  const S::F power = power_of_two(S::to_int(q.n));
  const S::F m = S::add(S::sub(power, S::set1(1.0f)), S::mul(power, expm1_small(q.r)));
  const S::F y = S::div(m, S::add(m, S::set1(2.0f)));
  return S::select(S::is_nan(x), x, S::select(negative, S::neg(y), y));
}

OP_INLINE Simd::F sigmoid(Simd::F x) {
  using S = Simd;
  return S::div(S::set1(1.0f), S::add(S::set1(1.0f), exp(S::neg(x))));
}

OP_INLINE Simd::F silu(Simd::F x) {
  using S = Simd;
  return S::div(x, S::add(S::set1(1.0f), exp(S::neg(x))));
}

OP_INLINE Simd::F gelu(Simd::F x) {
  using S = Simd;
  const S::F cube = S::mul(S::mul(S::mul(S::set1(0.044715f), x), x), x);
  S::F u = S::mul(S::set1(0.797884583f), S::add(x, cube));
  u = S::select(S::gt(u, S::set1(15.0f)), S::set1(15.0f), u);
  u = S::select(S::lt(u, S::set1(-15.0f)), S::set1(-15.0f), u);
  return S::mul(S::mul(S::set1(0.5f), x), S::add(S::set1(1.0f), tanh(u)));
}

OP_INLINE Simd::F gelu_erf(Simd::F x) {
  using S = Simd;
  const S::M negative = S::lt(x, S::zero());
  const S::F one = S::set1(1.0f), a = S::select(negative, S::neg(x), x);
  const S::F t = S::div(one, S::add(one, S::mul(S::set1(0.353553391f), a)));
  S::F p = S::set1(-0.0602052100f);
  p = S::add(S::mul(p, t), S::set1(0.289904326f));
  p = S::sub(S::mul(p, t), S::set1(0.497749925f));
  p = S::add(S::mul(p, t), S::set1(0.289532691f));
  p = S::sub(S::mul(p, t), S::set1(0.0340736806f));
  p = S::add(S::mul(p, t), S::set1(0.205633968f));
  p = S::add(S::mul(p, t), S::set1(0.242413431f));
  p = S::add(S::mul(p, t), S::set1(0.282462448f));
  p = S::add(S::mul(p, t), S::set1(0.282081902f));
  const S::F square = S::mul(S::mul(S::set1(-0.5f), a), a);
  const S::F tail = S::mul(S::mul(S::set1(0.5f), S::mul(t, p)), exp(square));
  return S::mul(x, S::select(negative, tail, S::sub(one, tail)));
}

OP_INLINE Simd::F softcap(Simd::F x, Simd::F cap) {
  return Simd::mul(cap, tanh(Simd::div(x, cap)));
}

// 32 values as one block of q8a: 32 signed bytes at numbers, {f32 d, i16 s0, i16 s1} at tail. A
// value that is not finite makes d a NaN.
OP_INLINE void quantize_q8a(Simd::F x0, Simd::F x1, void* numbers, void* tail) {
  using S = Simd;
  const float largest = S::max_lane(S::max(S::abs(x0), S::abs(x1)));
  const float poison = S::sum(S::mul(S::add(x0, x1), S::zero()));
  const float d = largest / 127.0f + poison;
  const S::F inverse = S::set1(d > 0.0f ? 1.0f / d : 0.0f);
  const S::F low = S::set1(-127.0f), high = S::set1(127.0f);
  const S::F t0 = S::max(S::min(S::round_even(S::mul(x0, inverse)), high), low);
  const S::F t1 = S::max(S::min(S::round_even(S::mul(x1, inverse)), high), low);
  const S::I q0 = S::to_int(t0), q1 = S::to_int(t1);
  S::store_i8(numbers, q0);
  S::store_i8(static_cast<char*>(numbers) + 16, q1);
  const std::int16_t sums[2] = {static_cast<std::int16_t>(S::sum_i(q0)),
                                static_cast<std::int16_t>(S::sum_i(q1))};
  std::memcpy(tail, &d, 4);
  std::memcpy(static_cast<char*>(tail) + 4, sums, 4);
}

}  // namespace onepass::ops::OP_ISA
