#ifndef ONEPASS_OPS_MOE_PARAMS_H_
#define ONEPASS_OPS_MOE_PARAMS_H_

#include "ops/shared/lang.h"

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

struct MoeReduceParams {
  op_u32 tokens;
  op_u32 used;
  op_u32 dim;
  op_u32 has_residual;
  op_u32 has_shared;
  op_u32 has_shared_gate;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_MOE_PARAMS_H_
