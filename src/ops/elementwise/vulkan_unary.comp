// Elementwise ops of one tensor.
#version 450
#define OP_GLSL
#include "ops/elementwise/params.h"
#define OP_PARAMS ElementwiseParams
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, type)
OP_VALUE(1, uint, function)

OP_READS(0, x)
OP_WRITES(1, result)

float apply(float v) {
  switch (function) {
    case 0:
      return op_silu(v);
    case 1:
      return op_gelu(v);
    case 2:
      return op_gelu_erf(v);
    case 3:
      return op_relu2(v);
    case 4:
      return op_sigmoid(v);
    case 5:
      return op_softcap(v, params.scalar);
    default:
      return params.scalar * v;
  }
}

void main() {
  for (uint i = flat_thread(); i < params.n_lo; i += flat_threads()) {
    result_store(type, i, apply(x_load(type, i)));
  }
}
