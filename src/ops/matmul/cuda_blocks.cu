// Formats that are not packed: blocks of GGUF files, and MLX affine weights of any width.
#include "ops/matmul/cuda_any.cuh"

#define OP_BLOCK(format, Block)                                                 \
  extern "C" __global__ void __launch_bounds__(128)                             \
      matmul_##format##_any(const __grid_constant__ onepass::CudaArgs a) {      \
    onepass::ops::any_matmul<onepass::ops::AnyBlock<onepass::quant::Block>>(a); \
  }
ONEPASS_BLOCK_FORMATS(OP_BLOCK)

#define OP_AFFINE(format, Bits)                                               \
  extern "C" __global__ void __launch_bounds__(128)                           \
      matmul_affine_##format(const __grid_constant__ onepass::CudaArgs a) {   \
    onepass::ops::any_matmul<onepass::ops::AnyAffine<onepass::ops::Bits>>(a); \
  }
OP_AFFINE(f32, F32Bits)
OP_AFFINE(f16, F16Bits)
OP_AFFINE(bf16, BF16Bits)
