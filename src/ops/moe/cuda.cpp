#include "ops/kernel_row.h"
#include "ops/moe/kernels.h"

namespace onepass::ops {
namespace {

constexpr KernelRow kernels[] = {
    waiting_row(Op::moe_gate, DType::f32, "moe_gate_f32", launch_moe_gate_cuda),
    waiting_row(Op::moe_reduce, DType::f32, "moe_reduce_f32", launch_moe_reduce_cuda),
};

}  // namespace

std::span<const KernelRow> moe_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
