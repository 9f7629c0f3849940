#include "ops/kernel_row.h"
#include "ops/rope/kernels.h"

namespace onepass::ops {
namespace {

constexpr std::uint32_t rope_factors = 1u << 2, rope_store_factors = 1u << 6;

#define ROPE(type) \
  waiting_row(Op::rope, DType::type, "rope_" #type, launch_rope_cuda, {.reads_early = rope_factors})
#define ROPE_STORE(type)                                                                \
  waiting_row(Op::rope_store, DType::type, "rope_store_" #type, launch_rope_store_cuda, \
              {.symbol = "rope_store", .reads_early = rope_store_factors})

constexpr KernelRow kernels[] = {
    ROPE(f32), ROPE(f16), ROPE(bf16), ROPE_STORE(f32), ROPE_STORE(f16), ROPE_STORE(q8_0),
};

#undef ROPE_STORE
#undef ROPE

}  // namespace

std::span<const KernelRow> rope_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
