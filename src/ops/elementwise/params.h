#ifndef ONEPASS_OPS_ELEMENTWISE_PARAMS_H_
#define ONEPASS_OPS_ELEMENTWISE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct ElementwiseParams {
  op_u32 n_lo, n_hi;  // elements
  float cap;          // softcap only
};

struct CopyParams {
  op_u32 bytes_lo, bytes_hi;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_ELEMENTWISE_PARAMS_H_
