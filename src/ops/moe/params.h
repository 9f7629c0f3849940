#ifndef ONEPASS_OPS_MOE_PARAMS_H_
#define ONEPASS_OPS_MOE_PARAMS_H_

#include "ops/shared/forms.h"

OP_BEGIN_NAMESPACE

struct MoeGateParams {
  op_u32 tokens;
  op_u32 experts;
  op_u32 used;
  op_u32 sigmoid;  // else softmax
  op_u32 renormalise;
  op_u32 has_bias;
  op_u32 has_expert_scale;
  float scale;
};

// Slots: gate, up, ids, gate_bias, up_bias, out; without biases ids is empty, too.
struct GatedParams {
  op_u32 form;  // form_quantized
  op_u32 rows;
  op_u32 dim;
  op_u32 activation;  // as ops::GateActivation
  op_u32 experts;     // 0: no biases
};
const op_u32 gated_activations = 5u;

// Slots: y, weights, residual, shared, shared_gate, out, ids, bias.
struct MoeReduceParams {
  op_u32 tokens;
  op_u32 used;
  op_u32 dim;
  op_u32 has_residual;
  op_u32 has_shared;
  op_u32 has_shared_gate;
  op_u32 experts;  // 0: no bias
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_MOE_PARAMS_H_
