#include "core/kernel_row.h"
#include "ops/matmul/kernels.h"

namespace onepass::ops {
namespace {

constexpr KernelRow kernels[] = {
    gpu_row(Op::matmul, DType::f32, "matmul_f32_f32", launch_matmul_cuda),
    gpu_row(Op::matmul, DType::q8_0, "matmul_q8_0_f32", launch_matmul_cuda),
};

}  // namespace

std::span<const KernelRow> matmul_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
