#include "backends/cuda/args.h"
#include "ops/norm/params.h"
#include "ops/shared/cuda.cuh"

namespace onepass::ops {
namespace {

// Every output element depends only on elements at its own place and the row's sum, and is
// written by the thread that read them: out may be x or the scale.
template <bool Mul>
__device__ void norm_rows(const CudaArgs& args) {
  const RmsNormParams p = args.params_as<RmsNormParams>();
  const float* weight = args.ptr<const float>(1);
  const std::uint32_t dim = p.dim;
  const bool wide = dim % 4 == 0 && is_aligned_16(args.views[0]) && is_aligned_16(args.views[1]) &&
                    is_aligned_16(args.views[2]) && (!Mul || is_aligned_16(args.views[3]));
  for (std::uint64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const float* x = args.ptr<const float>(0) + row * dim;
    const float* scale = Mul ? args.ptr<const float>(2) + row * dim : nullptr;
    float* out = args.ptr<float>(Mul ? 3 : 2) + row * dim;

    float sum = 0.0f;
    for (std::uint64_t i = 4 * threadIdx.x; i < dim; i += 4 * blockDim.x) {
      const float4 v = load_4(x, i, dim, wide);
      sum += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
    sum = block_sum(sum);
    const float r = 1.0f / op_sqrt(sum / static_cast<float>(dim) + p.eps);

    for (std::uint64_t i = 4 * threadIdx.x; i < dim; i += 4 * blockDim.x) {
      const float4 v = load_4(x, i, dim, wide);
      const float4 w = load_4(weight, i, dim, wide);
      float4 y = make_float4(v.x * r * w.x, v.y * r * w.y, v.z * r * w.z, v.w * r * w.w);
      if constexpr (Mul) {
        const float4 s = load_4(scale, i, dim, wide);
        y = make_float4(y.x * s.x, y.y * s.y, y.z * s.z, y.w * s.w);
      }
      store_4(out, i, dim, wide, y);
    }
  }
}

}  // namespace
}  // namespace onepass::ops

extern "C" __global__ void __launch_bounds__(1024)
    rms_norm_f32(const __grid_constant__ onepass::CudaArgs args) {
  onepass::ops::norm_rows<false>(args);
}

extern "C" __global__ void __launch_bounds__(1024)
    rms_norm_mul_f32(const __grid_constant__ onepass::CudaArgs args) {
  onepass::ops::norm_rows<true>(args);
}
