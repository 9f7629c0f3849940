#include "ops/matmul/cuda_entries.cuh"

OP_MATMUL_ENTRIES(f32, F32Form, AnyFloat<F32Bits>)
