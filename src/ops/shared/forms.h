// Forms of a dispatch: what it does beside its op, bits of the first parameter of the ops that have
// any (tables/ops.def). Operands of a form are bound behind the op's own slots; what is not bound
// is not there.
#ifndef ONEPASS_OPS_SHARED_FORMS_H_
#define ONEPASS_OPS_SHARED_FORMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// Before the op.
const op_u32 form_normed = 1u;  // products: x is normed (one row)
const op_u32 form_sum = 2u;     // norms: of x + a tensor; the sum is an output, too
// Products of one x with two or three weights, an output of each.
const op_u32 form_parts = 4u;
// After the op, in this order.
const op_u32 form_bias = 8u;        // products: + a row, for each part its own
const op_u32 form_product = 16u;    // products: activation(first part) * second; norms: * a tensor
const op_u32 form_residual = 32u;   // + a tensor like the output
const op_u32 form_quantized = 64u;  // the output is q8a

const op_u32 product_forms =
    form_normed | form_parts | form_bias | form_product | form_residual | form_quantized;
const op_u32 norm_forms = form_sum | form_product | form_residual | form_quantized;

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_SHARED_FORMS_H_
