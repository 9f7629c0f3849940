#ifndef ONEPASS_OPS_MATMUL_PARAMS_H_
#define ONEPASS_OPS_MATMUL_PARAMS_H_

#include "ops/shared/forms.h"

OP_BEGIN_NAMESPACE

// Products of x with up to three weights of one format. Slots: x, then weight, output and bias of
// each part, then residual and the weight of the norm.
const op_u32 matmul_x = 0u;
const op_u32 matmul_residual = 10u;
const op_u32 matmul_norm = 11u;
const op_u32 matmul_max_parts = 3u;
OP_FN op_u32 matmul_weight(op_u32 part) { return 1u + 3u * part; }
OP_FN op_u32 matmul_out(op_u32 part) { return 2u + 3u * part; }
OP_FN op_u32 matmul_bias(op_u32 part) { return 3u + 3u * part; }

// form_product: the first part is the gate, both have n0 rows, the output is that of part 0.
struct MatmulParams {
  op_u32 form;
  op_u32 m, k;
  op_u32 n0, n1, n2;  // rows of the weights; n1, n2: 0 where there is no such part
  op_u32 activation;  // form_product: 0 silu, 1 gelu, 2 gelu_erf
  float eps;          // form_normed
};

// Further slots: scales, biases.
const op_u32 matmul_scales = 12u;
const op_u32 matmul_biases = 13u;
struct MatmulAffineParams {
  MatmulParams product;
  op_u32 bits;
  op_u32 group_size;
};

// m: pairs of token and expert. A further slot: the experts of the pairs.
const op_u32 matmul_ids = 12u;
struct MatmulIdParams {
  MatmulParams product;
  op_u32 used;  // experts per token
  op_u32 experts;
  op_u32 pair_rows;  // 1: x has a row for each of the token's experts
  // The experts whose weights are bound, 0: all. Pairs with others are left alone, and those that
  // name no expert are the part's with expert 0.
  op_u32 first_expert, bound_experts;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_MATMUL_PARAMS_H_
