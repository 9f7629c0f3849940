#include "ops/rope/kernels.h"
#include "ops/shared/cuda_row.h"

namespace onepass::ops {
namespace {

constexpr KernelRow kernels[] = {
    waiting_row(Op::rope, DType::f32, "rope_f32", launch_rope_cuda),
    waiting_row(Op::rope, DType::f16, "rope_f16", launch_rope_cuda),
    waiting_row(Op::rope, DType::bf16, "rope_bf16", launch_rope_cuda),
    waiting_row(Op::rope_store, DType::f32, "rope_store_f32", launch_rope_store_cuda, "rope_store"),
    waiting_row(Op::rope_store, DType::f16, "rope_store_f16", launch_rope_store_cuda, "rope_store"),
    waiting_row(Op::rope_store, DType::q8_0, "rope_store_q8_0", launch_rope_store_cuda,
                "rope_store"),
};

}  // namespace

std::span<const KernelRow> rope_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
