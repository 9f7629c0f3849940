#include "ops/matmul/cuda_entries.cuh"

OP_MATMUL_ENTRIES(f32, F32Form, AnyFloat<F32Bits>)
OP_MATMUL_TILE(f32, F32Form, float_tile_matmul)
