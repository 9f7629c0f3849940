#ifndef ONEPASS_OPS_QUANTIZE_PARAMS_H_
#define ONEPASS_OPS_QUANTIZE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct QuantizeParams {
  op_u32 rows, cols;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_QUANTIZE_PARAMS_H_
