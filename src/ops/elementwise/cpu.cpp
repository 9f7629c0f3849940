#include "ops/shared/cpu.h"

#include <algorithm>

#include "core/kernel_row.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/params.h"
#include "ops/shared/halves.h"

namespace onepass::ops {
namespace {

struct Add {
  static float apply(float a, float b) noexcept { return a + b; }
};
struct Mul {
  static float apply(float a, float b) noexcept { return a * b; }
};
struct SiluMul {
  static float apply(float a, float b) noexcept { return op_silu(a) * b; }
};
struct GeluMul {
  static float apply(float a, float b) noexcept { return op_gelu(a) * b; }
};
struct GeluErfMul {
  static float apply(float a, float b) noexcept { return op_gelu_erf(a) * b; }
};
struct SigmoidMul {
  static float apply(float a, float b) noexcept { return op_sigmoid(a) * b; }
};

// The second argument is the scalar of the params.
struct Silu {
  static float apply(float x, float) noexcept { return op_silu(x); }
};
struct Gelu {
  static float apply(float x, float) noexcept { return op_gelu(x); }
};
struct GeluErf {
  static float apply(float x, float) noexcept { return op_gelu_erf(x); }
};
struct Relu2 {
  static float apply(float x, float) noexcept { return op_relu2(x); }
};
struct Sigmoid {
  static float apply(float x, float) noexcept { return op_sigmoid(x); }
};
struct Softcap {
  static float apply(float x, float cap) noexcept { return op_softcap(x, cap); }
};
struct Scale {
  static float apply(float x, float factor) noexcept { return factor * x; }
};

template <class F, class T>
void binary(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ElementwiseParams>();
  const auto [begin, end] = a.part(join(p.n_lo, p.n_hi));
  const T* x = a.ptr<const T>(0);
  const T* y = a.ptr<const T>(1);
  T* out = a.ptr<T>(2);
  for (std::uint64_t i = begin; i < end;) {
    // Up to the end of b's row, where it is one.
    const std::uint64_t shift = p.b_elements != 0 ? i - i % p.b_elements : 0;
    const std::uint64_t stop = p.b_elements != 0 ? std::min(end, shift + p.b_elements) : end;
    for (; i < stop; ++i) {
      out[i] = from_float<T>(F::apply(to_float(x[i]), to_float(y[i - shift])));
    }
  }
}

template <class F, class T>
void unary(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ElementwiseParams>();
  const auto [begin, end] = a.part(join(p.n_lo, p.n_hi));
  const T* x = a.ptr<const T>(0);
  T* out = a.ptr<T>(1);
  for (std::uint64_t i = begin; i < end; ++i) {
    out[i] = from_float<T>(F::apply(to_float(x[i]), p.scalar));
  }
}

template <class From, class To>
void convert(const KernelArgs& a, KernelArgs::Part part) noexcept {
  const From* x = a.ptr<const From>(0);
  To* out = a.ptr<To>(1);
  if constexpr (std::is_same_v<From, To>) {
    std::copy(x + part.begin, x + part.end, out + part.begin);
  } else {
    for (std::uint64_t i = part.begin; i < part.end; ++i) out[i] = from_float<To>(to_float(x[i]));
  }
}

template <class From>
void cast(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<CastParams>();
  const KernelArgs::Part part = a.part(join(p.n_lo, p.n_hi));
  switch (static_cast<DType>(p.to)) {
    case DType::f16:
      return convert<From, F16>(a, part);
    case DType::bf16:
      return convert<From, BF16>(a, part);
    default:
      return convert<From, float>(a, part);
  }
}

#define BINARY(op, F)                                                              \
  cpu_row(Op::op, DType::f32, #op "_f32", launch_elementwise, binary<F, float>),   \
      cpu_row(Op::op, DType::f16, #op "_f16", launch_elementwise, binary<F, F16>), \
      cpu_row(Op::op, DType::bf16, #op "_bf16", launch_elementwise, binary<F, BF16>)
#define UNARY(op, F)                                                              \
  cpu_row(Op::op, DType::f32, #op "_f32", launch_elementwise, unary<F, float>),   \
      cpu_row(Op::op, DType::f16, #op "_f16", launch_elementwise, unary<F, F16>), \
      cpu_row(Op::op, DType::bf16, #op "_bf16", launch_elementwise, unary<F, BF16>)

constexpr KernelRow kernels[] = {
    BINARY(add, Add),
    BINARY(mul, Mul),
    BINARY(silu_mul, SiluMul),
    BINARY(gelu_mul, GeluMul),
    BINARY(gelu_erf_mul, GeluErfMul),
    BINARY(sigmoid_mul, SigmoidMul),
    UNARY(silu, Silu),
    UNARY(gelu, Gelu),
    UNARY(gelu_erf, GeluErf),
    UNARY(relu2, Relu2),
    UNARY(sigmoid, Sigmoid),
    UNARY(softcap, Softcap),
    UNARY(scale, Scale),
    cpu_row(Op::cast, DType::f32, "cast_f32", launch_cast, cast<float>),
    cpu_row(Op::cast, DType::f16, "cast_f16", launch_cast, cast<F16>),
    cpu_row(Op::cast, DType::bf16, "cast_bf16", launch_cast, cast<BF16>),
};

#undef BINARY
#undef UNARY

}  // namespace

std::span<const KernelRow> elementwise_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
