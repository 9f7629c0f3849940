#include "ops/matmul/cuda_entries.cuh"
#include "ops/matmul/cuda_line.cuh"
#include "ops/matmul/cuda_norm_line.cuh"

OP_MATMUL_ENTRIES(a8_f16_s16, A8F16Form, AnySplit<quant::SplitA8F16>)
OP_MATMUL_TILE(a8_f16_s16, A8F16Form, tile_matmul)
OP_MATMUL_LINES(a8_f16_s16, A8F16Form)
OP_MATMUL_NORMS(a8_f16_s16, A8F16Form)
