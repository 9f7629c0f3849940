#include "backends/cuda/args.h"
#include "ops/elementwise/params.h"
#include "ops/shared/cuda.cuh"
#include "ops/shared/scalar.h"

namespace onepass::ops {
namespace {

struct Add {
  __device__ static float apply(float a, float b) { return a + b; }
};
struct Mul {
  __device__ static float apply(float a, float b) { return a * b; }
};
struct SiluMul {
  __device__ static float apply(float a, float b) { return op_silu(a) * b; }
};

// Elements i .. i + 3 of a row that repeats.
__device__ float4 load_row_4(const float* row, std::uint64_t i, std::uint32_t n) {
  return make_float4(row[i % n], row[(i + 1) % n], row[(i + 2) % n], row[(i + 3) % n]);
}

template <class F>
__device__ void binary(const CudaArgs& args) {
  const ElementwiseParams p = args.params_as<ElementwiseParams>();
  const std::uint64_t n = std::uint64_t{p.n_hi} << 32 | p.n_lo;
  const float* a = args.ptr<const float>(0);
  const float* b = args.ptr<const float>(1);
  float* out = args.ptr<float>(2);
  const bool wide = n % 4 == 0 && is_aligned_16(a) && is_aligned_16(b) && is_aligned_16(out);
  const std::uint64_t step = std::uint64_t{4} * blockDim.x * gridDim.x;
  for (std::uint64_t i = 4 * (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x); i < n;
       i += step) {
    const float4 x = load_4(a, i, n, wide);
    const float4 y = p.b_elements != 0 ? load_row_4(b, i, p.b_elements) : load_4(b, i, n, wide);
    store_4(out, i, n, wide,
            make_float4(F::apply(x.x, y.x), F::apply(x.y, y.y), F::apply(x.z, y.z),
                        F::apply(x.w, y.w)));
  }
}

}  // namespace
}  // namespace onepass::ops

extern "C" __global__ void __launch_bounds__(256)
    add_f32(const __grid_constant__ onepass::CudaArgs args) {
  onepass::ops::binary<onepass::ops::Add>(args);
}

extern "C" __global__ void __launch_bounds__(256)
    mul_f32(const __grid_constant__ onepass::CudaArgs args) {
  onepass::ops::binary<onepass::ops::Mul>(args);
}

extern "C" __global__ void __launch_bounds__(256)
    silu_mul_f32(const __grid_constant__ onepass::CudaArgs args) {
  onepass::ops::binary<onepass::ops::SiluMul>(args);
}
