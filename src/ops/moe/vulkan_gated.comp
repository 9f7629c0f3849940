// Gates of experts, with the biases of a row's expert. A thread has an element.
#version 450
#define OP_GLSL
#include "ops/moe/params.h"
#define OP_PARAMS GatedParams
#include "ops/shared/vulkan.glsl"

OP_READS(0, gate)
OP_READS(1, up)
OP_READS(2, ids)
OP_READS(3, gate_bias)
OP_READS(4, up_bias)
OP_WRITES(5, result)

float apply(float g, float u) {
  switch (params.activation) {
    case 0:
      return op_silu(g) * u;
    case 1:
      return op_gelu(g) * u;
    case 2:
      return op_gelu_erf(g) * u;
    case 3:
      return op_relu2(g) * u;
    default:
      g = g < 7.0 ? g : 7.0;
      u = u < 7.0 ? u : 7.0;
      u = u < -7.0 ? -7.0 : u;
      return g * op_sigmoid(1.702 * g) * (u + 1.0);
  }
}

void main() {
  for (uint at = flat_thread(); at < params.rows * params.dim; at += flat_threads()) {
    float g = gate_float(at), u = up_float(at);
    uint expert = params.experts != 0u ? ids_word(at / params.dim) : 0u;
    if (expert < params.experts) {
      uint column = expert * params.dim + at % params.dim;
      g += gate_bias_float(column);
      u += up_bias_float(column);
    }
    result_set_float(at, apply(g, u));
  }
}
