#ifndef ONEPASS_OPS_SOFTMAX_PARAMS_H_
#define ONEPASS_OPS_SOFTMAX_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct SoftmaxParams {
  op_u32 rows;
  op_u32 cols;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_SOFTMAX_PARAMS_H_
