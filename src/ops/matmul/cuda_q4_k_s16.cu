#include "ops/matmul/cuda_entries.cuh"
#include "ops/matmul/cuda_line.cuh"
#include "ops/matmul/cuda_norm_line.cuh"

OP_MATMUL_ENTRIES(q4_k_s16, Q4_KForm, AnySplit<quant::SplitQ4_K>)
OP_MATMUL_TILE(q4_k_s16, Q4_KForm, tile_matmul)
OP_MATMUL_LINES(q4_k_s16, Q4_KForm)
OP_MATMUL_NORMS(q4_k_s16, Q4_KForm)
