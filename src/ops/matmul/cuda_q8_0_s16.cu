#include "ops/matmul/cuda_entries.cuh"
#include "ops/matmul/cuda_line.cuh"
#include "ops/matmul/cuda_norm_line.cuh"

OP_MATMUL_ENTRIES(q8_0_s16, Q8_0Form, AnySplit<quant::SplitQ8_0>)
OP_MATMUL_TILE(q8_0_s16, Q8_0Form, tile_matmul)
OP_MATMUL_LINES(q8_0_s16, Q8_0Form)
OP_MATMUL_NORMS(q8_0_s16, Q8_0Form)
