#include "core/kernel_row.h"
#include "ops/norm/kernels.h"

namespace onepass::ops {
namespace {

constexpr KernelRow kernels[] = {
    gpu_row(Op::rms_norm, DType::f32, "rms_norm_f32", launch_rms_norm_cuda),
    gpu_row(Op::rms_norm_mul, DType::f32, "rms_norm_mul_f32", launch_rms_norm_cuda),
};

}  // namespace

std::span<const KernelRow> norm_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
