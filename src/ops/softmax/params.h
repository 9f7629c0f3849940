#ifndef ONEPASS_OPS_SOFTMAX_PARAMS_H_
#define ONEPASS_OPS_SOFTMAX_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// Views: x, mask (may be empty), out. Row r uses row r % mask_rows of the mask.
struct SoftmaxParams {
  op_u32 rows;
  op_u32 cols;
  float scale;
  op_u32 mask_rows;    // 0: no mask
  op_u32 mask_is_f32;  // else bf16
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_SOFTMAX_PARAMS_H_
