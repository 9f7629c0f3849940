#include "ops/shared/cpu.h"

#include "core/kernel_row.h"
#include "ops/rope/kernels.h"
#include "ops/rope/params.h"

namespace onepass::ops {
namespace {

template <class T>
void rotate_row(const RopeParams& p, const float* factors, std::uint32_t position, const T* x,
                T* y) noexcept {
  const std::size_t row = std::size_t{p.heads} * p.head_dim;
  if (x != y) std::memcpy(y, x, row * sizeof(T));
  for (std::uint32_t i = 0; i < p.pairs; ++i) {
    const float factor = p.has_factors != 0 ? factors[i] : 1.0f;
    const OpPair cos_sin =
        op_cos_sin_turns(op_rope_turns(position, i, p.ratio_hi, p.ratio_lo, factor));
    T* a = y + std::size_t{i} * p.step;
    for (std::uint32_t h = 0; h < p.heads; ++h, a += p.head_dim) {
      const float x0 = to_float(a[0]), x1 = to_float(a[p.distance]);
      a[0] = from_float<T>(x0 * cos_sin.hi - x1 * cos_sin.lo);
      a[p.distance] = from_float<T>(x0 * cos_sin.lo + x1 * cos_sin.hi);
    }
  }
}

template <class T>
void rope(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<RopeParams>();
  const StepReader step(a.data[1], p.positions_are_u32 != 0 ? 0 : a.bytes[1]);
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t r = begin; r < end; ++r) {
    if (p.positions_are_u32 == 0 && r >= step.n_rows()) break;
    const std::uint32_t position = p.positions_are_u32 != 0
                                       ? a.ptr<const std::uint32_t>(1)[r]
                                       : step.row(static_cast<std::uint32_t>(r)).position;
    const std::uint64_t offset = r * p.heads * p.head_dim;
    rotate_row(p, a.ptr<const float>(2), position, a.ptr<const T>(0) + offset,
               a.ptr<T>(3) + offset);
  }
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::rope, DType::f32, "rope_f32", launch_rope, rope<float>),
    cpu_row(Op::rope, DType::f16, "rope_f16", launch_rope, rope<F16>),
    cpu_row(Op::rope, DType::bf16, "rope_bf16", launch_rope, rope<BF16>),
};

}  // namespace

std::span<const KernelRow> rope_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
