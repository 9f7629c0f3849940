#include "ops/matmul/cuda_entries.cuh"
#include "ops/matmul/cuda_line.cuh"
#include "ops/matmul/cuda_norm_line.cuh"

OP_MATMUL_ENTRIES(q4_0_s16, Q4_0Form, AnySplit<quant::SplitQ4_0>)
OP_MATMUL_TILE(q4_0_s16, Q4_0Form, tile_matmul)
OP_MATMUL_LINES(q4_0_s16, Q4_0Form)
OP_MATMUL_NORMS(q4_0_s16, Q4_0Form)
