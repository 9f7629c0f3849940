// What the CUDA kernels share: reductions in a fixed order, and loads of four f32 that give the
// same values whether or not the address allows a wide access.
#ifndef ONEPASS_OPS_SHARED_CUDA_CUH_
#define ONEPASS_OPS_SHARED_CUDA_CUH_

#include <cstdint>

namespace onepass::ops {

// The sum over the warp, the same bits in every lane.
__device__ inline float warp_sum(float v) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

// The sum over a block of whole warps, the same bits in every thread.
__device__ inline float block_sum(float v) {
  __shared__ float partial[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = warp_sum(v);
  __syncthreads();  // the sum before this one may still be read
  if (lane == 0) partial[warp] = v;
  __syncthreads();
  return warp_sum(lane < blockDim.x / 32 ? partial[lane] : 0.0f);
}

__device__ inline bool is_aligned_16(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

// Elements [i, i + 4) of an array of n; zeros beyond its end. wide: p is 16-byte aligned, i and n
// are multiples of 4.
__device__ inline float4 load_4(const float* p, std::uint64_t i, std::uint64_t n, bool wide) {
  if (wide) return *reinterpret_cast<const float4*>(p + i);
  float4 v;
  v.x = i < n ? p[i] : 0.0f;
  v.y = i + 1 < n ? p[i + 1] : 0.0f;
  v.z = i + 2 < n ? p[i + 2] : 0.0f;
  v.w = i + 3 < n ? p[i + 3] : 0.0f;
  return v;
}

__device__ inline void store_4(float* p, std::uint64_t i, std::uint64_t n, bool wide, float4 v) {
  if (wide) {
    *reinterpret_cast<float4*>(p + i) = v;
    return;
  }
  if (i < n) p[i] = v.x;
  if (i + 1 < n) p[i + 1] = v.y;
  if (i + 2 < n) p[i + 2] = v.z;
  if (i + 3 < n) p[i + 3] = v.w;
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_SHARED_CUDA_CUH_
