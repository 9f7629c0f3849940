#include "ops/matmul/cuda_entries.cuh"
#include "ops/matmul/cuda_line.cuh"
#include "ops/matmul/cuda_norm_line.cuh"

OP_MATMUL_ENTRIES(a8_bf16_s16, A8BF16Form, AnySplit<quant::SplitA8BF16>)
OP_MATMUL_TILE(a8_bf16_s16, A8BF16Form, tile_matmul)
OP_MATMUL_LINES(a8_bf16_s16, A8BF16Form)
OP_MATMUL_NORMS(a8_bf16_s16, A8BF16Form)
