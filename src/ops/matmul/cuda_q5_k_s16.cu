#include "ops/matmul/cuda_entries.cuh"
#include "ops/matmul/cuda_line.cuh"
#include "ops/matmul/cuda_norm_line.cuh"

OP_MATMUL_ENTRIES(q5_k_s16, Q5_KForm, AnySplit<quant::SplitQ5_K>)
OP_MATMUL_TILE(q5_k_s16, Q5_KForm, tile_matmul)
OP_MATMUL_LINES(q5_k_s16, Q5_KForm)
OP_MATMUL_NORMS(q5_k_s16, Q5_KForm)
