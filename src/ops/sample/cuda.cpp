#include <cstddef>

#include "onepass/step_state.h"
#include "ops/kernel_row.h"
#include "ops/sample/kernels.h"

namespace onepass::ops {
namespace {

// What ops/shared/cuda_step.cuh counts in words.
static_assert(offsetof(StepHeader, n_rows) == 0 && offsetof(StepHeader, max_rows) == 8 &&
              offsetof(StepHeader, max_slots) == 12 && offsetof(StepHeader, seed_lo) == 16 &&
              offsetof(StepHeader, seed_hi) == 20 && sizeof(StepHeader) == 32);
static_assert(offsetof(StepRow, token) == 0 && offsetof(StepRow, position) == 4 &&
              offsetof(StepRow, slot) == 8 && sizeof(StepRow) == 16);
static_assert(offsetof(StepSlot, kv_length) == 0 && offsetof(StepSlot, page_offset) == 4 &&
              sizeof(StepSlot) == 16);

constexpr KernelRow kernels[] = {
    waiting_row(Op::argmax, DType::f32, "argmax_f32", launch_argmax_cuda),
    waiting_row(Op::argsort, DType::f32, "argsort_f32", launch_argsort_cuda),
    waiting_row(Op::top_k, DType::f32, "top_k_f32", launch_top_k_cuda),
    waiting_row(Op::sample, DType::f32, "sample_f32", launch_sample_cuda),
    waiting_row(Op::step_advance, DType::u32, "step_advance", launch_step_advance_cuda),
};

}  // namespace

std::span<const KernelRow> sample_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
