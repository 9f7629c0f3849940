#include "ops/norm/kernels.h"
#include "ops/shared/cuda_row.h"

namespace onepass::ops {
namespace {

#define NORM_ROWS(op)                                                \
  waiting_row(Op::op, DType::f32, #op "_f32", launch_norm_cuda),     \
      waiting_row(Op::op, DType::f16, #op "_f16", launch_norm_cuda), \
      waiting_row(Op::op, DType::bf16, #op "_bf16", launch_norm_cuda)

constexpr KernelRow kernels[] = {
    NORM_ROWS(rms_norm),
    NORM_ROWS(rms_norm_no_scale),
    NORM_ROWS(rms_norm_mul),
    NORM_ROWS(norm_add),
    NORM_ROWS(add_rms_norm),
    NORM_ROWS(l2_norm),
    NORM_ROWS(layer_norm),
    waiting_row(Op::rms_norm_q, DType::f32, "rms_norm_q_f32", launch_norm_cuda),
    waiting_row(Op::add_rms_norm_q, DType::f32, "add_rms_norm_q_f32", launch_norm_cuda),
};

#undef NORM_ROWS

}  // namespace

std::span<const KernelRow> norm_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
