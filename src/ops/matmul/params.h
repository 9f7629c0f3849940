#ifndef ONEPASS_OPS_MATMUL_PARAMS_H_
#define ONEPASS_OPS_MATMUL_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// Also of matmul_bias, matmul_add and matmul_bias_add.
struct MatmulParams {
  op_u32 m, n, k;
};

// Weights of the same format and x; n2 = 0: there are two.
struct Matmul3Params {
  op_u32 m, k;
  op_u32 n0, n1, n2;
};

struct MatmulGluParams {
  op_u32 m, n, k;
  op_u32 activation;  // of the gate: 0 silu, 1 gelu, 2 gelu_erf
};

// Products of norm(x), one row of f32: views and params of the op without the norm, then the norm's
// weight and eps. x, weights and norm weight start at multiples of 16 bytes, k is a multiple of 32
// and at most norm_matmul_max_k.
struct NormMatmulParams {
  op_u32 m, n, k;
  float eps;
};
struct NormMatmul3Params {
  op_u32 m, k;
  op_u32 n0, n1, n2;
  float eps;
};
struct NormMatmulGluParams {
  op_u32 m, n, k;
  op_u32 activation;
  float eps;
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
  op_u32 pair_rows;  // 1: x has a row for each of the token's experts
  // The experts whose weights are bound, 0: all. Pairs with others are left alone, and those that
  // name no expert are the part's with expert 0.
  op_u32 first_expert, bound_experts;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_MATMUL_PARAMS_H_
