#include "ops/elementwise/kernels.h"
#include "ops/kernel_row.h"

namespace onepass::ops {
namespace {

#define OP_ROWS(op, launch)                                \
  waiting_row(Op::op, DType::f32, #op "_f32", launch),     \
      waiting_row(Op::op, DType::f16, #op "_f16", launch), \
      waiting_row(Op::op, DType::bf16, #op "_bf16", launch)

constexpr KernelRow kernels[] = {
    OP_ROWS(add, launch_elementwise_cuda),          OP_ROWS(mul, launch_elementwise_cuda),
    OP_ROWS(silu_mul, launch_elementwise_cuda),     OP_ROWS(gelu_mul, launch_elementwise_cuda),
    OP_ROWS(gelu_erf_mul, launch_elementwise_cuda), OP_ROWS(sigmoid_mul, launch_elementwise_cuda),
    OP_ROWS(silu, launch_elementwise_cuda),         OP_ROWS(gelu, launch_elementwise_cuda),
    OP_ROWS(gelu_erf, launch_elementwise_cuda),     OP_ROWS(relu2, launch_elementwise_cuda),
    OP_ROWS(sigmoid, launch_elementwise_cuda),      OP_ROWS(softcap, launch_elementwise_cuda),
    OP_ROWS(scale, launch_elementwise_cuda),        OP_ROWS(cast, launch_cast_cuda),
};

#undef OP_ROWS

}  // namespace

std::span<const KernelRow> elementwise_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
