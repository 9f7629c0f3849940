// All kernels of one weight format: OP_MATMUL_blocks(format, Form, AnyWeights), for the rows of
// ops/shared/cuda_formats.def. cuda.cpp names the entry points in the order of MatmulVariant.
#ifndef ONEPASS_OPS_MATMUL_CUDA_FORMAT_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_FORMAT_CUH_

#include "ops/matmul/cuda_entries.cuh"
#include "ops/matmul/cuda_line.cuh"
#include "ops/matmul/cuda_norm_line.cuh"

#define OP_MATMUL_plain(format, Form, AnyWeights) \
  OP_MATMUL_ENTRIES(format, Form, AnyWeights)     \
  OP_MATMUL_TILE(format, Form, float_tile_matmul)

#define OP_MATMUL_split(format, Form, AnyWeights) \
  OP_MATMUL_ENTRIES(format, Form, AnyWeights)     \
  OP_MATMUL_TILE(format, Form, tile_matmul)       \
  OP_MATMUL_LINES(format, Form)                   \
  OP_MATMUL_NORMS(format, Form)

#endif  // ONEPASS_OPS_MATMUL_CUDA_FORMAT_CUH_
