#include "ops/kernel_row.h"
#include "ops/softmax/kernels.h"

namespace onepass::ops {
namespace {

constexpr KernelRow kernels[] = {
    waiting_row(Op::softmax, DType::f32, "softmax_f32", launch_softmax_cuda),
    waiting_row(Op::softmax, DType::f16, "softmax_f16", launch_softmax_cuda),
    waiting_row(Op::softmax, DType::bf16, "softmax_bf16", launch_softmax_cuda),
};

}  // namespace

std::span<const KernelRow> softmax_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
