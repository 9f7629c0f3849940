#include "ops/matmul/cuda_entries.cuh"

OP_MATMUL_ENTRIES(f16, F16Form, AnyFloat<F16Bits>)
OP_MATMUL_TILE(f16, F16Form, float_tile_matmul)
