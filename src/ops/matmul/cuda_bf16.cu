#include "ops/matmul/cuda_entries.cuh"

OP_MATMUL_ENTRIES(bf16, BF16Form, AnyFloat<BF16Bits>)
