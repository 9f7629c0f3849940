#include "ops/matmul/cuda_entries.cuh"

OP_MATMUL_ENTRIES(f16, F16Form, AnyFloat<F16Bits>)
