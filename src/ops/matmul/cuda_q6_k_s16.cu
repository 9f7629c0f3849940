#include "ops/matmul/cuda_entries.cuh"
#include "ops/matmul/cuda_line.cuh"
#include "ops/matmul/cuda_norm_line.cuh"

OP_MATMUL_ENTRIES(q6_k_s16, Q6_KForm, AnySplit<quant::SplitQ6_K>)
OP_MATMUL_TILE(q6_k_s16, Q6_KForm, tile_matmul)
OP_MATMUL_LINES(q6_k_s16, Q6_KForm)
OP_MATMUL_NORMS(q6_k_s16, Q6_KForm)
