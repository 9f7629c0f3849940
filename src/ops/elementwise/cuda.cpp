#include "core/kernel_row.h"
#include "ops/elementwise/kernels.h"

namespace onepass::ops {
namespace {

constexpr KernelRow kernels[] = {
    gpu_row(Op::add, DType::f32, "add_f32", launch_elementwise_cuda),
    gpu_row(Op::mul, DType::f32, "mul_f32", launch_elementwise_cuda),
    gpu_row(Op::silu_mul, DType::f32, "silu_mul_f32", launch_elementwise_cuda),
};

}  // namespace

std::span<const KernelRow> elementwise_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
