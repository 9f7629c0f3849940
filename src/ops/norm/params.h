#ifndef ONEPASS_OPS_NORM_PARAMS_H_
#define ONEPASS_OPS_NORM_PARAMS_H_

#include "ops/shared/forms.h"

OP_BEGIN_NAMESPACE

// rms_norm. Slots: x, weight (may be empty), out, other, also, plain. With a quantized output
// `plain`, where it is bound, is what was quantized. One of the forms that take `other`:
//   form_sum       also = x + other, out = norm(also)
//   form_product   out = norm(x) * other; where `also` is bound, it is norm(x)
//   form_residual  out = other + norm(x)
const op_u32 norm_x = 0u, norm_weight_slot = 1u, norm_out = 2u, norm_other = 3u, norm_also = 4u,
             norm_plain = 5u;
struct RmsNormParams {
  op_u32 form;
  op_u32 rows;
  op_u32 dim;
  float eps;
  op_u32 weight_is_f32;  // else the weight has the type of x
};

// Views: x, out.
struct L2NormParams {
  op_u32 rows;
  op_u32 dim;
  float eps;
};

// Views: x, weight, bias, out. Weight and bias have the same type and may be empty.
struct LayerNormParams {
  op_u32 rows;
  op_u32 dim;
  float eps;
  op_u32 weight_is_f32;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_NORM_PARAMS_H_
