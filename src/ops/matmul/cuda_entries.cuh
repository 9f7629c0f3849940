// Entry points of the kernels of one weight format: OP_MATMUL_ENTRIES(format, Form, AnyWeights).
#ifndef ONEPASS_OPS_MATMUL_CUDA_ENTRIES_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_ENTRIES_CUH_

#include "ops/matmul/cuda_any.cuh"
#include "ops/matmul/cuda_matvec.cuh"
#include "ops/matmul/cuda_tile.cuh"
#include "ops/matmul/cuda_tile_float.cuh"

namespace onepass::ops {

template <class F>
__device__ __forceinline__ void matvec_rows(const CudaArgs& args) {
  switch (args.values[matmul_rows]) {
    case 2:
      return matvec<F, 2>(args);
    case 4:
      return matvec<F, 4>(args);
    default:
      return matvec<F, 8>(args);
  }
}

}  // namespace onepass::ops

// Registers are capped so that a multiprocessor holds at least 768 threads, and blocks of the next
// kernel beside those of this one.
#define OP_MATMUL_ENTRIES(format, Form, AnyWeights)                 \
  namespace onepass::ops {                                          \
  extern "C" __global__ void __maxnreg__(Form::registers) matmul_   \
      ##format(const __grid_constant__ CudaArgs args) {             \
    matvec<Form, 1>(args);                                          \
  }                                                                 \
  extern "C" __global__ void __launch_bounds__(256) matmul_##format \
      ##_rows(const __grid_constant__ CudaArgs args) {              \
    matvec_rows<Form>(args);                                        \
  }                                                                 \
  extern "C" __global__ void __launch_bounds__(128) matmul_##format \
      ##_any(const __grid_constant__ CudaArgs args) {               \
    any_matmul<AnyWeights>(args);                                   \
  }                                                                 \
  }

// Many rows of x: large and small blocks.
#define OP_MATMUL_TILE(format, Form, tile)                             \
  namespace onepass::ops {                                             \
  extern "C" __global__ void __launch_bounds__(256, 2) matmul_##format \
      ##_tile(const __grid_constant__ CudaArgs args) {                 \
    if (blockDim.x == 256) {                                           \
      tile<Form, 4, 2>(args);                                          \
    } else {                                                           \
      tile<Form, 2, 1>(args);                                          \
    }                                                                  \
  }                                                                    \
  }

#endif  // ONEPASS_OPS_MATMUL_CUDA_ENTRIES_CUH_
