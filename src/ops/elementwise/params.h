#ifndef ONEPASS_OPS_ELEMENTWISE_PARAMS_H_
#define ONEPASS_OPS_ELEMENTWISE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct ElementwiseParams {
  op_u32 n_lo, n_hi;  // elements of a and out
  float scalar;       // softcap: the cap; scale: the factor
  op_u32 b_elements;  // add, mul: b is one row, repeated; 0: as many as a
};

struct CastParams {
  op_u32 n_lo, n_hi;
  op_u32 to;  // DType of out
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_ELEMENTWISE_PARAMS_H_
