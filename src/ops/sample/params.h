#ifndef ONEPASS_OPS_SAMPLE_PARAMS_H_
#define ONEPASS_OPS_SAMPLE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct ArgmaxParams {
  op_u32 rows;
  op_u32 cols;
};

struct StepAdvanceParams {
  op_u32 rows;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_SAMPLE_PARAMS_H_
