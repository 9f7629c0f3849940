#include "ops/matmul/cuda_entries.cuh"

OP_MATMUL_ENTRIES(a4_bf16_s16, A4BF16Form, AnySplit<quant::SplitA4BF16>)
