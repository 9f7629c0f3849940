#include "ops/kernel_row.h"
#include "ops/norm/kernels.h"

namespace onepass::ops {
namespace {

// weights: slots of what is read before the wait.
#define NORM_ROW(op, type, weights) \
  waiting_row(Op::op, DType::type, #op "_" #type, launch_norm_cuda, {.reads_early = weights})
#define NORM_ROWS(op, weights) \
  NORM_ROW(op, f32, weights), NORM_ROW(op, f16, weights), NORM_ROW(op, bf16, weights)

constexpr KernelRow kernels[] = {
    NORM_ROWS(rms_norm, 1u << 1),           NORM_ROWS(rms_norm_no_scale, 0),
    NORM_ROWS(rms_norm_mul, 1u << 1),       NORM_ROWS(norm_add, 1u << 1),
    NORM_ROWS(add_rms_norm, 1u << 2),       NORM_ROWS(l2_norm, 0),
    NORM_ROWS(layer_norm, 1u << 1),         NORM_ROW(rms_norm_q, f32, 1u << 1),
    NORM_ROW(add_rms_norm_q, f32, 1u << 2),
};

#undef NORM_ROWS
#undef NORM_ROW

}  // namespace

std::span<const KernelRow> norm_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
