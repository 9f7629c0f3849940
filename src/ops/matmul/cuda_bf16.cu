#include "ops/matmul/cuda_entries.cuh"

OP_MATMUL_ENTRIES(bf16, BF16Form, AnyFloat<BF16Bits>)
OP_MATMUL_TILE(bf16, BF16Form, float_tile_matmul)
