// The weighted sum of the experts' rows, with what goes beside it. A thread has a column.
#version 450
#define OP_GLSL
#include "ops/moe/params.h"
#define OP_PARAMS MoeReduceParams
#include "ops/shared/vulkan.glsl"

OP_READS(0, y)
OP_READS(1, weights)
OP_READS(2, residual)
OP_READS(3, beside)
OP_READS(4, gate)
OP_WRITES(5, result)
OP_READS(6, ids)
OP_READS(7, bias)

void main() {
  for (uint at = flat_thread(); at < params.tokens * params.dim; at += flat_threads()) {
    uint token = at / params.dim, column = at % params.dim;
    float sum = 0.0;
    for (uint n = 0u; n < params.used; ++n) {
      uint pair = token * params.used + n;
      float v = y_float(pair * params.dim + column);
      uint expert = params.experts != 0u ? ids_word(pair) : 0u;
      if (expert < params.experts) v += bias_float(expert * params.dim + column);
      sum += weights_float(pair) * v;
    }
    if (params.has_shared != 0u) {
      float g = params.has_shared_gate != 0u ? op_sigmoid(gate_float(token)) : 1.0;
      sum += g * beside_float(at);
    }
    if (params.has_residual != 0u) sum += residual_float(at);
    result_set_float(at, sum);
  }
}
