// Softmax for one instruction set.
#ifndef OP_ISA

#include "core/kernel_row.h"
#include "ops/shared/cpu.h"
#include "ops/softmax/kernels.h"
#include "ops/softmax/params.h"

#else

#include "ops/shared/simd16_rows.h"

namespace onepass::ops::OP_ISA {

struct SoftmaxMask {
  const std::byte* row;  // null: none
  bool is_f32;
};

// x * scale + mask; lanes beyond n are minus infinity.
template <class T>
OP_INLINE Simd::F scores(const T* x, const SoftmaxMask& mask, Simd::F scale, std::size_t i,
                         std::size_t n) {
  using S = Simd;
  S::F s = S::mul(load_some(x + i, n), scale);
  if (mask.row != nullptr) {
    s = S::add(s, mask.is_f32 ? load_some(reinterpret_cast<const float*>(mask.row) + i, n)
                              : load_some(reinterpret_cast<const BF16*>(mask.row) + i, n));
  }
  if (n < 16) {
    const S::M there = S::lt(S::to_float(S::iota()), S::set1(static_cast<float>(n)));
    s = S::select(there, s, S::set1(-__builtin_inff()));
  }
  return s;
}

// The exponentials are computed twice: storing them first would round 16-bit results twice.
template <class T>
void softmax(const KernelArgs& a) noexcept {
  using S = Simd;
  const auto& p = params<SoftmaxParams>(a);
  const KernelArgs::Part part = a.part(p.rows);
  const S::F scale = S::set1(p.scale);
  for (std::uint64_t row = part.begin; row < part.end; ++row) {
    const T* x = in<T>(a, 0) + row * p.cols;
    T* y = out<T>(a, 2) + row * p.cols;
    SoftmaxMask mask{nullptr, p.mask_is_f32 != 0};
    if (p.mask_rows != 0) {
      mask.row = a.data[1] + row % p.mask_rows * p.cols * (mask.is_f32 ? 4u : 2u);
    }
    S::F tops = S::set1(-__builtin_inff());
    for (std::size_t i = 0; i < p.cols; i += 16) {
      tops = S::max(scores(x, mask, scale, i, lanes_left(i, p.cols)), tops);
    }
    const float top = S::max_lane(tops);
    // Masks hide with minus infinity or very large negative numbers.
    if (top == -__builtin_inff() || (mask.row != nullptr && top <= -1e30f)) {
      for (std::size_t i = 0; i < p.cols; i += 16) {
        const std::size_t n = lanes_left(i, p.cols);
        const S::F v = scores(x, mask, scale, i, n);
        store_some(y + i, S::select(S::is_nan(v), v, S::zero()), n);
      }
      continue;
    }
    const S::F highest = S::set1(top);
    S::F sums = S::zero();
    for (std::size_t i = 0; i < p.cols; i += 16) {
      const S::F s = scores(x, mask, scale, i, lanes_left(i, p.cols));
      sums = S::add(sums, exp(S::sub(s, highest)));
    }
    const S::F total = S::set1(S::sum(sums));
    for (std::size_t i = 0; i < p.cols; i += 16) {
      const std::size_t n = lanes_left(i, p.cols);
      const S::F e = exp(S::sub(scores(x, mask, scale, i, n), highest));
      store_some(y + i, S::div(e, total), n);
    }
  }
}

constexpr KernelRow softmax_rows[] = {
    cpu_row(Op::softmax, DType::f32, "softmax_f32", launch_softmax, softmax<float>, OP_ISA_FEATURE),
    cpu_row(Op::softmax, DType::f16, "softmax_f16", launch_softmax, softmax<F16>, OP_ISA_FEATURE),
    cpu_row(Op::softmax, DType::bf16, "softmax_bf16", launch_softmax, softmax<BF16>,
            OP_ISA_FEATURE),
};

}  // namespace onepass::ops::OP_ISA

#endif  // OP_ISA
