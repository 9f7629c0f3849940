#include "ops/shared/cpu.h"

#include "core/kernel_row.h"
#include "ops/sample/kernels.h"
#include "ops/sample/params.h"

namespace onepass::ops {
namespace {

// NaN is never the largest; a row of nothing else gives 0.
void argmax(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<ArgmaxParams>();
  const auto [begin, end] = a.part(p.rows);
  for (std::uint64_t row = begin; row < end; ++row) {
    const float* x = a.ptr<const float>(0) + row * p.cols;
    std::uint32_t best = 0;
    for (std::uint32_t i = 1; i < p.cols; ++i) {
      if (x[i] > x[best] || (x[best] != x[best] && x[i] == x[i])) best = i;
    }
    a.ptr<std::uint32_t>(1)[row] = best;
  }
}

void step_advance(const KernelArgs& a) noexcept {
  const auto& p = a.params_as<StepAdvanceParams>();
  const StepReader step(a.data[1], a.bytes[1]);
  for (std::uint32_t r = 0; r < p.rows && r < step.n_rows(); ++r) {
    StepRow row = step.row(r);
    row.token = a.ptr<const std::uint32_t>(0)[r];
    ++row.position;
    std::memcpy(a.data[1] + step.row_offset(r), &row, sizeof(row));
    if (row.slot >= step.n_slots()) continue;
    StepSlot slot = step.slot(row.slot);
    ++slot.kv_length;
    std::memcpy(a.data[1] + step.slot_offset(row.slot), &slot, sizeof(slot));
  }
}

constexpr KernelRow kernels[] = {
    cpu_row(Op::argmax, DType::f32, "argmax_f32", launch_argmax, argmax),
    cpu_row(Op::step_advance, DType::u32, "step_advance", launch_step_advance, step_advance),
};

}  // namespace

std::span<const KernelRow> sample_cpu_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
