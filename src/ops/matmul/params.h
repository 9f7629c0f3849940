#ifndef ONEPASS_OPS_MATMUL_PARAMS_H_
#define ONEPASS_OPS_MATMUL_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct MatmulParams {
  op_u32 m, n, k;
};

struct MatmulAffineParams {
  op_u32 m, n, k;
  op_u32 bits;
  op_u32 group_size;
};

struct MatmulIdParams {
  op_u32 tokens;
  op_u32 used;  // experts per token
  op_u32 experts;
  op_u32 n, k;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_MATMUL_PARAMS_H_
