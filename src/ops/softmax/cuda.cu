// A block per row. Exponentials are computed twice: storing them first would round 16-bit results
// twice.
#include "backends/cuda/args.h"
#include "ops/shared/cuda_elements.cuh"
#include "ops/softmax/params.h"

namespace onepass::ops {
namespace {

// The largest of the block's numbers, in every thread; NaN does not count.
__device__ inline float block_max(float v, float* tops) {
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
  if (lane == 0) tops[warp] = v;
  __syncthreads();
  v = lane < blockDim.x / 32 ? tops[lane] : -INFINITY;
#pragma unroll
  for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
  return v;
}

template <class T>
__device__ void softmax(const CudaArgs& args) {
  __shared__ float tops[32];
  pdl_launch();
  pdl_wait();
  const SoftmaxParams p = args.params_as<SoftmaxParams>();
  for (std::uint64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const T* x = args.ptr<const T>(0) + row * p.cols;
    T* y = args.ptr<T>(2) + row * p.cols;
    const std::uint64_t mask_at = p.mask_rows != 0 ? row % p.mask_rows * p.cols : 0;
    const auto score = [&](std::uint32_t i) {
      const float s = as_float(x[i]) * p.scale;
      if (p.mask_rows == 0) return s;
      return s + (p.mask_is_f32 != 0 ? args.ptr<const float>(1)[mask_at + i]
                                     : as_float(args.ptr<const Bfloat>(1)[mask_at + i]));
    };
    float top = -INFINITY;
    for (std::uint32_t i = threadIdx.x; i < p.cols; i += blockDim.x) top = fmaxf(top, score(i));
    top = block_max(top, tops);
    // Masks hide with minus infinity or very large negative numbers.
    if (top == -INFINITY || (p.mask_rows != 0 && top <= -1e30f)) {
      for (std::uint32_t i = threadIdx.x; i < p.cols; i += blockDim.x) {
        const float s = score(i);
        y[i] = round_to<T>(s != s ? s : 0.0f);
      }
      __syncthreads();
      continue;
    }
    float sum = 0.0f;
    for (std::uint32_t i = threadIdx.x; i < p.cols; i += blockDim.x) {
      sum += op_exp(score(i) - top);
    }
    const float total = block_sum(sum);
    for (std::uint32_t i = threadIdx.x; i < p.cols; i += blockDim.x) {
      y[i] = round_to<T>(op_exp(score(i) - top) / total);
    }
  }
}

}  // namespace
}  // namespace onepass::ops

#define SOFTMAX_KERNEL(name, T)                              \
  extern "C" __global__ void __launch_bounds__(1024)         \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    onepass::ops::softmax<T>(args);                          \
  }
SOFTMAX_KERNEL(softmax_f32, float)
SOFTMAX_KERNEL(softmax_f16, onepass::ops::Half)
SOFTMAX_KERNEL(softmax_bf16, onepass::ops::Bfloat)
