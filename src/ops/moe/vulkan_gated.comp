// The gates of experts, with biases by expert. A thread has a column.
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

float gated(float gate, float up) {
  if (params.activation == 0u) return op_silu(gate) * up;
  if (params.activation == 1u) return op_gelu(gate) * up;
  if (params.activation == 2u) return op_gelu_erf(gate) * up;
  if (params.activation == 3u) return op_relu2(gate) * up;
  float g = min(gate, 7.0), u = clamp(up, -7.0, 7.0);
  return g * op_sigmoid(1.702 * g) * (u + 1.0);
}

void main() {
  for (uint at = flat_thread(); at < params.rows * params.dim; at += flat_threads()) {
    float gate = gate_float(at), up = up_float(at);
    uint expert = params.experts != 0u ? ids_word(at / params.dim) : ~0u;
    if (expert < params.experts) {
      uint column = expert * params.dim + at % params.dim;
      gate += gate_bias_float(column);
      up += up_bias_float(column);
    }
    result_set_float(at, gated(gate, up));
  }
}
