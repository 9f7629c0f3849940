#ifndef ONEPASS_OPS_SAMPLE_PARAMS_H_
#define ONEPASS_OPS_SAMPLE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// argmax, argsort
struct ArgmaxParams {
  op_u32 rows;
  op_u32 cols;
};

struct TopKParams {
  op_u32 rows;
  op_u32 cols;
  op_u32 k;  // at most cols
};

struct SampleParams {
  op_u32 rows;
  op_u32 cols;
  op_u32 top_k;  // 0: all
  float temperature;
  float top_p;
  float min_p;
};

struct StepAdvanceParams {
  op_u32 rows;
  op_u32 history;  // columns; 0: there is none
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_SAMPLE_PARAMS_H_
