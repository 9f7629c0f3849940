#ifndef ONEPASS_OPS_NORM_PARAMS_H_
#define ONEPASS_OPS_NORM_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct RmsNormParams {
  op_u32 rows;
  op_u32 dim;
  float eps;
  op_u32 weight_is_f32;  // else the weight has the type of x
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_NORM_PARAMS_H_
