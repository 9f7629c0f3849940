// Rows of a key or value cache, written by a warp.
#ifndef ONEPASS_OPS_SHARED_CUDA_CACHE_CUH_
#define ONEPASS_OPS_SHARED_CUDA_CACHE_CUH_

#include "onepass/dtype.h"
#include "ops/shared/cuda_elements.cuh"
#include "ops/shared/cuda_step.cuh"

namespace onepass::ops {

__device__ inline std::uint64_t device_cache_row_bytes(DType type, std::uint32_t head_dim) {
  return type == DType::f32   ? std::uint64_t{4} * head_dim
         : type == DType::f16 ? std::uint64_t{2} * head_dim
                              : std::uint64_t{head_dim / 32} * 34;
}

// Element e of the row at `row`, for caches without blocks.
__device__ inline void store_cache_element(DType type, std::uint8_t* row, std::uint32_t e,
                                           float x) {
  if (type == DType::f16) {
    reinterpret_cast<Half*>(row)[e] = round_to<Half>(x);
  } else {
    reinterpret_cast<float*>(row)[e] = x;
  }
}

// The whole warp; x(e) gives element e.
template <class X>
__device__ inline void store_cache_row(DType type, std::uint8_t* row, std::uint32_t head_dim,
                                       const X& x) {
  const std::uint32_t lane = threadIdx.x % 32;
  if (type == DType::q8_0) {
    for (std::uint32_t b = 0; b < head_dim / 32; ++b) store_q8_0_1(row + 34 * b, x(32 * b + lane));
    return;
  }
  for (std::uint32_t e = lane; e < head_dim; e += 32) store_cache_element(type, row, e, x(e));
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_SHARED_CUDA_CACHE_CUH_
