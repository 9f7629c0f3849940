#ifndef ONEPASS_OPS_ROPE_PARAMS_H_
#define ONEPASS_OPS_ROPE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// Pair i of a head is (i * step, i * step + distance).
struct RopeParams {
  op_u32 rows;
  op_u32 heads;
  op_u32 head_dim;
  op_u32 pairs;
  op_u32 step;
  op_u32 distance;
  op_u32 positions_are_u32;  // else a StepState
  op_u32 has_factors;
  float ratio_hi, ratio_lo;  // theta^(-2 / dim) as a sum: the frequency of pair i is its i-th power
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_ROPE_PARAMS_H_
