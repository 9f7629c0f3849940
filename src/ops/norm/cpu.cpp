#include "ops/shared/cpu.h"

#include "core/kernel_row.h"
#include "ops/norm/kernels.h"
#include "ops/norm/params.h"

namespace onepass::ops {
namespace {

template <class T>
float inverse_rms(const T* x, std::size_t dim, float eps) noexcept {
  Lanes lanes{};
  accumulate(lanes, dim, [x](std::size_t i) {
    const float v = to_float(x[i]);
    return v * v;
  });
  return 1.0f / op_sqrt(sum(lanes) / static_cast<float>(dim) + eps);
}

template <class T>
void rms_norm_no_scale(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<RmsNormParams>();
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t row = begin; row < end; ++row) {
    const T* x = a.ptr<const T>(0) + row * p.dim;
    T* y = a.ptr<T>(1) + row * p.dim;
    const float r = inverse_rms(x, p.dim, p.eps);
    for (std::size_t i = 0; i < p.dim; ++i) y[i] = from_float<T>(to_float(x[i]) * r);
  }
}

template <class T, class W>
void norm_rows(const KernelArgs& a, const W* weight) noexcept {
  const auto& p = a.params_as<RmsNormParams>();
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t row = begin; row < end; ++row) {
    const T* x = a.ptr<const T>(0) + row * p.dim;
    T* y = a.ptr<T>(2) + row * p.dim;
    const float r = inverse_rms(x, p.dim, p.eps);
    for (std::size_t i = 0; i < p.dim; ++i) {
      y[i] = from_float<T>(to_float(x[i]) * r * to_float(weight[i]));
    }
  }
}

template <class T, class W>
void norm_mul_rows(const KernelArgs& a, const W* weight) noexcept {
  const auto& p = a.params_as<RmsNormParams>();
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t row = begin; row < end; ++row) {
    const T* x = a.ptr<const T>(0) + row * p.dim;
    const T* scale = a.ptr<const T>(2) + row * p.dim;
    T* y = a.ptr<T>(3) + row * p.dim;
    const float r = inverse_rms(x, p.dim, p.eps);
    for (std::size_t i = 0; i < p.dim; ++i) {
      // Rounded in between, as the two ops on their own would.
      const T normed = from_float<T>(to_float(x[i]) * r * to_float(weight[i]));
      y[i] = from_float<T>(to_float(normed) * to_float(scale[i]));
    }
  }
}

template <class T>
void rms_norm(const KernelArgs& a) noexcept {
  if (a.params_as<RmsNormParams>().weight_is_f32 != 0) {
    norm_rows<T>(a, a.ptr<const float>(1));
  } else {
    norm_rows<T>(a, a.ptr<const T>(1));
  }
}

template <class T>
void rms_norm_mul(const KernelArgs& a) noexcept {
  if (a.params_as<RmsNormParams>().weight_is_f32 != 0) {
    norm_mul_rows<T>(a, a.ptr<const float>(1));
  } else {
    norm_mul_rows<T>(a, a.ptr<const T>(1));
  }
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::rms_norm, DType::f32, "rms_norm_f32", launch_rms_norm, rms_norm<float>),
    cpu_row(Op::rms_norm, DType::f16, "rms_norm_f16", launch_rms_norm, rms_norm<F16>),
    cpu_row(Op::rms_norm, DType::bf16, "rms_norm_bf16", launch_rms_norm, rms_norm<BF16>),
    cpu_row(Op::rms_norm_no_scale, DType::f32, "rms_norm_no_scale_f32", launch_rms_norm,
            rms_norm_no_scale<float>),
    cpu_row(Op::rms_norm_no_scale, DType::f16, "rms_norm_no_scale_f16", launch_rms_norm,
            rms_norm_no_scale<F16>),
    cpu_row(Op::rms_norm_no_scale, DType::bf16, "rms_norm_no_scale_bf16", launch_rms_norm,
            rms_norm_no_scale<BF16>),
    cpu_row(Op::rms_norm_mul, DType::f32, "rms_norm_mul_f32", launch_rms_norm, rms_norm_mul<float>),
    cpu_row(Op::rms_norm_mul, DType::f16, "rms_norm_mul_f16", launch_rms_norm, rms_norm_mul<F16>),
    cpu_row(Op::rms_norm_mul, DType::bf16, "rms_norm_mul_bf16", launch_rms_norm,
            rms_norm_mul<BF16>),
};

}  // namespace

std::span<const KernelRow> norm_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
