// Elementwise ops of two tensors.
#version 450
#define OP_GLSL
#include "ops/elementwise/params.h"
#define OP_PARAMS ElementwiseParams
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, type)
OP_VALUE(1, uint, function)

OP_READS(0, a)
OP_READS(1, b)
OP_WRITES(2, result)

float apply(float x, float y) {
  switch (function) {
    case 0:
      return x + y;
    case 1:
      return x * y;
    case 2:
      return op_silu(x) * y;
    case 3:
      return op_gelu(x) * y;
    case 4:
      return op_gelu_erf(x) * y;
    default:
      return op_sigmoid(x) * y;
  }
}

void main() {
  for (uint i = flat_thread(); i < params.n_lo; i += flat_threads()) {
    uint j = params.b_elements != 0u ? i % params.b_elements : i;
    result_store(type, i, apply(a_load(type, i), b_load(type, j)));
  }
}
