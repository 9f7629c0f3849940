// Elementwise ops for one instruction set.
#ifndef OP_ISA

#include "core/kernel_row.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/params.h"
#include "ops/shared/cpu.h"
#include "ops/shared/halves.h"

#else

#include "ops/shared/simd16_rows.h"

namespace onepass::ops::OP_ISA {

using Lanes16 = Simd::F;

struct Add {
  static OP_INLINE Lanes16 apply(Lanes16 a, Lanes16 b) { return Simd::add(a, b); }
};
struct Mul {
  static OP_INLINE Lanes16 apply(Lanes16 a, Lanes16 b) { return Simd::mul(a, b); }
};
struct SiluMul {
  static OP_INLINE Lanes16 apply(Lanes16 a, Lanes16 b) { return Simd::mul(silu(a), b); }
};
struct GeluMul {
  static OP_INLINE Lanes16 apply(Lanes16 a, Lanes16 b) { return Simd::mul(gelu(a), b); }
};
struct GeluErfMul {
  static OP_INLINE Lanes16 apply(Lanes16 a, Lanes16 b) { return Simd::mul(gelu_erf(a), b); }
};
struct SigmoidMul {
  static OP_INLINE Lanes16 apply(Lanes16 a, Lanes16 b) { return Simd::mul(sigmoid(a), b); }
};

// The second argument is the scalar of the params.
struct Silu {
  static OP_INLINE Lanes16 apply(Lanes16 x, Lanes16) { return silu(x); }
};
struct Gelu {
  static OP_INLINE Lanes16 apply(Lanes16 x, Lanes16) { return gelu(x); }
};
struct GeluErf {
  static OP_INLINE Lanes16 apply(Lanes16 x, Lanes16) { return gelu_erf(x); }
};
struct Relu2 {
  static OP_INLINE Lanes16 apply(Lanes16 x, Lanes16) {
    const Lanes16 a = Simd::select(Simd::lt(x, Simd::zero()), Simd::zero(), x);
    return Simd::mul(a, a);
  }
};
struct Sigmoid {
  static OP_INLINE Lanes16 apply(Lanes16 x, Lanes16) { return sigmoid(x); }
};
struct Softcap {
  static OP_INLINE Lanes16 apply(Lanes16 x, Lanes16 cap) { return softcap(x, cap); }
};
struct Scale {
  static OP_INLINE Lanes16 apply(Lanes16 x, Lanes16 factor) { return Simd::mul(factor, x); }
};

template <class F, class T>
void binary(const KernelArgs& a) noexcept {
  const auto& p = params<ElementwiseParams>(a);
  const KernelArgs::Part part = a.part(join(p.n_lo, p.n_hi));
  const T* x = in<T>(a, 0);
  const T* y = in<T>(a, 1);
  T* to = out<T>(a, 2);
  for (std::uint64_t i = part.begin; i < part.end;) {
    // Up to the end of b's row, where it is one.
    const std::uint64_t shift = p.b_elements != 0 ? i - i % p.b_elements : 0;
    std::uint64_t stop = part.end;
    if (p.b_elements != 0 && shift + p.b_elements < stop) stop = shift + p.b_elements;
    for (; i + 16 <= stop; i += 16) {
      store16(to + i, F::apply(load16(x + i), load16(y + (i - shift))));
    }
    if (i < stop) {
      const std::size_t n = stop - i;
      store_some(to + i, F::apply(load_some(x + i, n), load_some(y + (i - shift), n)), n);
      i = stop;
    }
  }
}

template <class F, class T>
void unary(const KernelArgs& a) noexcept {
  const auto& p = params<ElementwiseParams>(a);
  const KernelArgs::Part part = a.part(join(p.n_lo, p.n_hi));
  const Lanes16 scalar = Simd::set1(p.scalar);
  const T* x = in<T>(a, 0);
  T* to = out<T>(a, 1);
  std::uint64_t i = part.begin;
  for (; i + 16 <= part.end; i += 16) store16(to + i, F::apply(load16(x + i), scalar));
  if (i < part.end) {
    const std::size_t n = part.end - i;
    store_some(to + i, F::apply(load_some(x + i, n), scalar), n);
  }
}

template <class From, class To>
OP_INLINE void convert(const KernelArgs& a, KernelArgs::Part part) {
  const From* x = in<From>(a, 0);
  To* to = out<To>(a, 1);
  std::uint64_t i = part.begin;
  for (; i + 16 <= part.end; i += 16) store16(to + i, load16(x + i));
  if (i < part.end) store_some(to + i, load_some(x + i, part.end - i), part.end - i);
}

template <class From>
void cast(const KernelArgs& a) noexcept {
  const auto& p = params<CastParams>(a);
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

#define OP_ROWS(op, F, kernel)                                                                     \
  cpu_row(Op::op, DType::f32, #op "_f32", launch_elementwise, kernel<F, float>, OP_ISA_FEATURE),   \
      cpu_row(Op::op, DType::f16, #op "_f16", launch_elementwise, kernel<F, F16>, OP_ISA_FEATURE), \
      cpu_row(Op::op, DType::bf16, #op "_bf16", launch_elementwise, kernel<F, BF16>,               \
              OP_ISA_FEATURE)

constexpr KernelRow elementwise_rows[] = {
    OP_ROWS(add, Add, binary),
    OP_ROWS(mul, Mul, binary),
    OP_ROWS(silu_mul, SiluMul, binary),
    OP_ROWS(gelu_mul, GeluMul, binary),
    OP_ROWS(gelu_erf_mul, GeluErfMul, binary),
    OP_ROWS(sigmoid_mul, SigmoidMul, binary),
    OP_ROWS(silu, Silu, unary),
    OP_ROWS(gelu, Gelu, unary),
    OP_ROWS(gelu_erf, GeluErf, unary),
    OP_ROWS(relu2, Relu2, unary),
    OP_ROWS(sigmoid, Sigmoid, unary),
    OP_ROWS(softcap, Softcap, unary),
    OP_ROWS(scale, Scale, unary),
    cpu_row(Op::cast, DType::f32, "cast_f32", launch_cast, cast<float>, OP_ISA_FEATURE),
    cpu_row(Op::cast, DType::f16, "cast_f16", launch_cast, cast<F16>, OP_ISA_FEATURE),
    cpu_row(Op::cast, DType::bf16, "cast_bf16", launch_cast, cast<BF16>, OP_ISA_FEATURE),
};

#undef OP_ROWS

}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
