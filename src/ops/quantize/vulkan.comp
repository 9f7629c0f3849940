// Rows of weights as f32; a thread has 32 values. All rows together are as one.
#version 450
#define OP_GLSL
#include "ops/quantize/params.h"
#define OP_PARAMS QuantizeParams
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, format)
OP_VALUE(1, uint, block_elements)
OP_VALUE(2, uint, block_bytes)

#define WEIGHT_VIEW 0
OP_READS(0, weight)
OP_WRITES(1, result)
#include "quant/blocks.glsl"

void main() {
  uint n = params.rows * params.cols;
  for (uint i = flat_thread(); 32u * i < n; i += flat_threads()) {
    float v[32];
    weight_values(format, block_elements, block_bytes, 0u, n, i, v);
    for (uint e = 0u; e < 32u; ++e) result_set_float(32u * i + e, v[e]);
  }
}
