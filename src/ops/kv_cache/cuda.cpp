#include "ops/kernel_row.h"
#include "ops/kv_cache/kernels.h"

namespace onepass::ops {
namespace {

#define CACHE_ROWS(op)                                                 \
  waiting_row(Op::op, DType::f32, #op "_f32", launch_##op##_cuda),     \
      waiting_row(Op::op, DType::f16, #op "_f16", launch_##op##_cuda), \
      waiting_row(Op::op, DType::q8_0, #op "_q8_0", launch_##op##_cuda)
constexpr KernelRow kernels[] = {CACHE_ROWS(kv_store), CACHE_ROWS(kv_copy)};
#undef CACHE_ROWS

}  // namespace

std::span<const KernelRow> kv_cache_cuda_kernels() noexcept { return kernels; }

}  // namespace onepass::ops
