// Norm kernels for one instruction set.
#ifndef OP_ISA

#include "core/kernel_row.h"
#include "ops/norm/kernels.h"
#include "ops/norm/params.h"
#include "ops/shared/cpu.h"

#else

#include "ops/shared/norm_rows.h"

namespace onepass::ops::OP_ISA {

template <class T>
void rms_norm(const KernelArgs& a) noexcept {
  const auto& p = params<RmsNormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  const NormWeight<T> weight = norm_weight<T>(a, 1, p.weight_is_f32);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const T* x = in<T>(a, 0) + row * p.dim;
    scale_row(x, weight, inverse_rms(x, p.dim, p.eps), p.dim, out<T>(a, 2) + row * p.dim);
  }
}

template <class T>
void rms_norm_no_scale(const KernelArgs& a) noexcept {
  const auto& p = params<RmsNormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const T* x = in<T>(a, 0) + row * p.dim;
    scale_row(x, NormWeight<T>{nullptr, false}, inverse_rms(x, p.dim, p.eps), p.dim,
              out<T>(a, 1) + row * p.dim);
  }
}

template <class T>
void l2_norm(const KernelArgs& a) noexcept {
  const auto& p = params<RmsNormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const T* x = in<T>(a, 0) + row * p.dim;
    const float r = 1.0f / op_sqrt(sum_of_squares(x, p.dim) + p.eps);
    scale_row(x, NormWeight<T>{nullptr, false}, r, p.dim, out<T>(a, 1) + row * p.dim);
  }
}

// The norm is rounded to T before the second operation, as the two ops on their own would.
template <class T, bool Add>
OP_INLINE void norm_then(const KernelArgs& a) {
  const auto& p = params<RmsNormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  const NormWeight<T> weight = norm_weight<T>(a, 1, p.weight_is_f32);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const T* x = in<T>(a, 0) + row * p.dim;
    const T* other = in<T>(a, 2) + row * p.dim;
    T* y = out<T>(a, 3) + row * p.dim;
    const Simd::F r = Simd::set1(inverse_rms(x, p.dim, p.eps));
    for (std::size_t i = 0; i < p.dim; i += 16) {
      const std::size_t n = lanes_left(i, p.dim);
      const Simd::F v = rounded(normed(x, weight, r, i, n), x);
      const Simd::F o = load_some(other + i, n);
      store_some(y + i, Add ? Simd::add(o, v) : Simd::mul(v, o), n);
    }
  }
}
template <class T>
void rms_norm_mul(const KernelArgs& a) noexcept {
  norm_then<T, false>(a);
}
template <class T>
void norm_add(const KernelArgs& a) noexcept {
  norm_then<T, true>(a);
}

template <class T>
OP_INLINE void add_rows(const T* x, const T* residual, std::size_t dim, T* sum) {
  for (std::size_t i = 0; i < dim; i += 16) {
    const std::size_t n = lanes_left(i, dim);
    store_some(sum + i, Simd::add(load_some(x + i, n), load_some(residual + i, n)), n);
  }
}

template <class T>
void add_rms_norm(const KernelArgs& a) noexcept {
  const auto& p = params<RmsNormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  const NormWeight<T> weight = norm_weight<T>(a, 2, p.weight_is_f32);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const std::uint64_t at = row * p.dim;
    T* sum = out<T>(a, 3) + at;
    add_rows(in<T>(a, 0) + at, in<T>(a, 1) + at, p.dim, sum);
    scale_row<T>(sum, weight, inverse_rms(sum, p.dim, p.eps), p.dim, out<T>(a, 4) + at);
  }
}

inline void rms_norm_q(const KernelArgs& a) noexcept {
  const auto& p = params<RmsNormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  const NormWeight<float> weight = norm_weight<float>(a, 1, 1);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const float* x = in<float>(a, 0) + row * p.dim;
    scale_row_q(x, weight, inverse_rms(x, p.dim, p.eps), p.dim,
                out<std::byte>(a, 2) + row * (p.dim / 32 * 40));
  }
}

inline void add_rms_norm_q(const KernelArgs& a) noexcept {
  const auto& p = params<RmsNormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  const NormWeight<float> weight = norm_weight<float>(a, 2, 1);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const std::uint64_t at = row * p.dim;
    float* sum = out<float>(a, 3) + at;
    add_rows(in<float>(a, 0) + at, in<float>(a, 1) + at, p.dim, sum);
    scale_row_q(sum, weight, inverse_rms(sum, p.dim, p.eps), p.dim,
                out<std::byte>(a, 4) + row * (p.dim / 32 * 40));
  }
}

// Mean first, then the mean of the squared differences.
template <class T>
void layer_norm(const KernelArgs& a) noexcept {
  using S = Simd;
  const auto& p = params<LayerNormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  const NormWeight<T> weight = norm_weight<T>(a, 1, p.weight_is_f32);
  const NormWeight<T> bias = norm_weight<T>(a, 2, p.weight_is_f32);
  const float count = static_cast<float>(p.dim);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const T* x = in<T>(a, 0) + row * p.dim;
    T* y = out<T>(a, 3) + row * p.dim;
    S::F sum = S::zero();
    for (std::size_t i = 0; i < p.dim; i += 16) {
      sum = S::add(sum, load_some(x + i, lanes_left(i, p.dim)));
    }
    const S::F mean = S::set1(S::sum(sum) / count);
    S::F squares = S::zero();
    for (std::size_t i = 0; i < p.dim; i += 16) {
      const std::size_t n = lanes_left(i, p.dim);
      // Lanes that do not exist have to count as the mean.
      float tail[16];
      S::store(tail, mean);
      if (n < 16) S::store_part(tail, load_some(x + i, n), n);
      const S::F difference = S::sub(n == 16 ? load16(x + i) : S::load(tail), mean);
      squares = S::fma(difference, difference, squares);
    }
    const S::F r = S::set1(1.0f / op_sqrt(S::sum(squares) / count + p.eps));
    for (std::size_t i = 0; i < p.dim; i += 16) {
      const std::size_t n = lanes_left(i, p.dim);
      S::F v = S::mul(S::mul(S::sub(load_some(x + i, n), mean), r), weight.load(i, n));
      if (bias.data != nullptr) v = S::add(v, bias.load(i, n));
      store_some(y + i, v, n);
    }
  }
}

#define NORM_ROWS(op)                                                                \
  cpu_row(Op::op, DType::f32, #op "_f32", launch_norm, op<float>, OP_ISA_FEATURE),   \
      cpu_row(Op::op, DType::f16, #op "_f16", launch_norm, op<F16>, OP_ISA_FEATURE), \
      cpu_row(Op::op, DType::bf16, #op "_bf16", launch_norm, op<BF16>, OP_ISA_FEATURE)
constexpr KernelRow norm_rows[] = {
    NORM_ROWS(rms_norm),
    NORM_ROWS(rms_norm_no_scale),
    NORM_ROWS(rms_norm_mul),
    NORM_ROWS(norm_add),
    NORM_ROWS(add_rms_norm),
    NORM_ROWS(l2_norm),
    NORM_ROWS(layer_norm),
    cpu_row(Op::rms_norm_q, DType::f32, "rms_norm_q_f32", launch_norm, rms_norm_q, OP_ISA_FEATURE),
    cpu_row(Op::add_rms_norm_q, DType::f32, "add_rms_norm_q_f32", launch_norm, add_rms_norm_q,
            OP_ISA_FEATURE),
};
#undef NORM_ROWS

}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
