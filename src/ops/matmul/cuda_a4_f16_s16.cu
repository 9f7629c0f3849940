#include "ops/matmul/cuda_entries.cuh"
#include "ops/matmul/cuda_line.cuh"
#include "ops/matmul/cuda_norm_line.cuh"

OP_MATMUL_ENTRIES(a4_f16_s16, A4F16Form, AnySplit<quant::SplitA4F16>)
OP_MATMUL_TILE(a4_f16_s16, A4F16Form, tile_matmul)
OP_MATMUL_LINES(a4_f16_s16, A4F16Form)
OP_MATMUL_NORMS(a4_f16_s16, A4F16Form)
