// Norms of single rows. Sums: element i goes to lane i % 16 of one of four accumulators,
// which are added as ((0 + 1) + (2 + 3)) and then over the lanes.
#pragma once

#include "ops/shared/simd16_rows.h"

namespace onepass::ops::OP_ISA {

// y = x * r * w, or x * r without a weight.
template <class T>
struct NormWeight {
  const std::byte* data;  // null: ones
  bool is_f32;

  OP_INLINE Simd::F load(std::size_t i, std::size_t n) const {
    if (data == nullptr) return Simd::set1(1.0f);
    if (is_f32) return load_some(reinterpret_cast<const float*>(data) + i, n);
    return load_some(reinterpret_cast<const T*>(data) + i, n);
  }
};

template <class T>
OP_INLINE NormWeight<T> norm_weight(const KernelArgs& a, std::size_t view, op_u32 is_f32) {
  return {a.bytes[view] != 0 ? a.data[view] : nullptr, is_f32 != 0};
}

template <class T>
OP_INLINE float sum_of_squares(const T* x, std::size_t dim) {
  using S = Simd;
  S::F s0 = S::zero(), s1 = S::zero(), s2 = S::zero(), s3 = S::zero();
  std::size_t i = 0;
  for (; i + 64 <= dim; i += 64) {
    const S::F x0 = load16(x + i), x1 = load16(x + i + 16);
    const S::F x2 = load16(x + i + 32), x3 = load16(x + i + 48);
    s0 = S::fma(x0, x0, s0);
    s1 = S::fma(x1, x1, s1);
    s2 = S::fma(x2, x2, s2);
    s3 = S::fma(x3, x3, s3);
  }
  for (; i < dim; i += 16) {
    const S::F v = load_some(x + i, lanes_left(i, dim));
    s0 = S::fma(v, v, s0);
  }
  return S::sum(S::add(S::add(s0, s1), S::add(s2, s3)));
}

template <class T>
OP_INLINE float inverse_rms(const T* x, std::size_t dim, float eps) {
  return 1.0f / op_sqrt(sum_of_squares(x, dim) / static_cast<float>(dim) + eps);
}

template <class T>
OP_INLINE Simd::F normed(const T* x, const NormWeight<T>& weight, Simd::F r, std::size_t i,
                         std::size_t n) {
  return Simd::mul(Simd::mul(load_some(x + i, n), r), weight.load(i, n));
}

// y may be x.
template <class T>
OP_INLINE void scale_row(const T* x, const NormWeight<T>& weight, float r, std::size_t dim, T* y) {
  const Simd::F scale = Simd::set1(r);
  for (std::size_t i = 0; i < dim; i += 16) {
    const std::size_t n = lanes_left(i, dim);
    store_some(y + i, normed(x, weight, scale, i, n), n);
  }
}

// A norm of f32 rows as one row of q8a.
OP_INLINE void scale_row_q(const float* x, const NormWeight<float>& weight, float r,
                           std::size_t dim, std::byte* row) {
  const Simd::F scale = Simd::set1(r);
  for (std::size_t b = 0; b < dim / 32; ++b) {
    store_q8a(row, dim, b, normed(x, weight, scale, 32 * b, 16),
              normed(x, weight, scale, 32 * b + 16, 16));
  }
}

}  // namespace onepass::ops::OP_ISA
