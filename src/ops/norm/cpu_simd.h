// Norm kernels for one instruction set.
#ifndef OP_ISA

#include <type_traits>

#include "core/kernel_row.h"
#include "ops/norm/kernels.h"
#include "ops/norm/params.h"
#include "ops/shared/cpu.h"

#else

#include "ops/shared/norm_rows.h"

namespace onepass::ops::OP_ISA {

template <class T>
void l2_norm(const KernelArgs& a) noexcept {
  const auto& p = params<L2NormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const T* x = in<T>(a, 0) + row * p.dim;
    const float r = 1.0f / op_sqrt(sum_of_squares(x, p.dim) + p.eps);
    scale_row(x, NormWeight<T>{nullptr, false}, r, p.dim, out<T>(a, 1) + row * p.dim);
  }
}

// norm(x) * other or other + norm(x). The norm is rounded to T before the second operation, as the
// two ops on their own would, and stored where `also` is not null.
template <class T, bool Add>
OP_INLINE void norm_then(const T* x, const NormWeight<T>& weight, float factor, const T* other,
                         std::size_t dim, T* y, T* also) {
  const Simd::F r = Simd::set1(factor);
  for (std::size_t i = 0; i < dim; i += 16) {
    const std::size_t n = lanes_left(i, dim);
    const Simd::F v = rounded(normed(x, weight, r, i, n), x);
    const Simd::F o = load_some(other + i, n);
    if (also != nullptr) store_some(also + i, v, n);
    store_some(y + i, Add ? Simd::add(o, v) : Simd::mul(v, o), n);
  }
}

template <class T>
OP_INLINE void add_rows(const T* x, const T* residual, std::size_t dim, T* sum) {
  for (std::size_t i = 0; i < dim; i += 16) {
    const std::size_t n = lanes_left(i, dim);
    store_some(sum + i, Simd::add(load_some(x + i, n), load_some(residual + i, n)), n);
  }
}

template <class T>
void rms_norm(const KernelArgs& a) noexcept {
  const auto& p = params<RmsNormParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  const NormWeight<T> weight = norm_weight<T>(a, norm_weight_slot, p.weight_is_f32);
  const bool keeps = a.bytes[norm_also] != 0;
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const std::uint64_t at = row * p.dim;
    const T* x = in<T>(a, norm_x) + at;
    T* also = keeps ? out<T>(a, norm_also) + at : nullptr;
    if ((p.form & form_sum) != 0) {
      add_rows(x, in<T>(a, norm_other) + at, p.dim, also);
      x = also;
    }
    const float r = inverse_rms(x, p.dim, p.eps);
    if constexpr (std::is_same_v<T, float>) {
      if ((p.form & form_quantized) != 0) {
        scale_row_q(x, weight, r, p.dim, out<std::byte>(a, norm_out) + row * (p.dim / 32 * 40));
        if (a.bytes[norm_plain] != 0) {
          scale_row(x, weight, r, p.dim, out<float>(a, norm_plain) + at);
        }
        continue;
      }
    }
    T* y = out<T>(a, norm_out) + at;
    if ((p.form & form_product) != 0) {
      norm_then<T, false>(x, weight, r, in<T>(a, norm_other) + at, p.dim, y, also);
    } else if ((p.form & form_residual) != 0) {
      norm_then<T, true>(x, weight, r, in<T>(a, norm_other) + at, p.dim, y, nullptr);
    } else {
      scale_row(x, weight, r, p.dim, y);
    }
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

constexpr KernelRow rms_row(Format format, const char* name, std::uint32_t forms, CpuKernelFn cpu) {
  KernelRow row = cpu_row(Op::rms_norm, format, name, launch_norm, cpu, OP_ISA_FEATURE);
  row.forms = forms;
  row.accepts = accepts_norm;
  return row;
}

#define NORM_ROWS(op)                                                                \
  cpu_row(Op::op, DType::f32, #op "_f32", launch_norm, op<float>, OP_ISA_FEATURE),   \
      cpu_row(Op::op, DType::f16, #op "_f16", launch_norm, op<F16>, OP_ISA_FEATURE), \
      cpu_row(Op::op, DType::bf16, #op "_bf16", launch_norm, op<BF16>, OP_ISA_FEATURE)
constexpr KernelRow norm_rows[] = {
    rms_row(DType::f32, "rms_norm_f32", norm_forms, rms_norm<float>),
    rms_row(DType::f16, "rms_norm_f16", norm_forms & ~form_quantized, rms_norm<F16>),
    rms_row(DType::bf16, "rms_norm_bf16", norm_forms & ~form_quantized, rms_norm<BF16>),
    NORM_ROWS(l2_norm),
    NORM_ROWS(layer_norm),
};
#undef NORM_ROWS

}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
