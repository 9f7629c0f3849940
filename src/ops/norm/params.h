#ifndef ONEPASS_OPS_NORM_PARAMS_H_
#define ONEPASS_OPS_NORM_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// All norms but layer_norm. Views:
//   rms_norm           x, weight, out
//   rms_norm_no_scale  x, out
//   rms_norm_mul       x, weight, factor, out        out = norm(x) * factor
//   rms_norm_q         x, weight, out                out is q8a
//   add_rms_norm(_q)   x, residual, weight, sum, out sum = x + residual, out = norm(sum)
//   norm_add           x, weight, residual, out      out = residual + norm(x)
//   l2_norm            x, out
// Only the weights of rms_norm and rms_norm_mul have to be there.
struct RmsNormParams {
  op_u32 rows;
  op_u32 dim;
  float eps;
  op_u32 weight_is_f32;  // else the weight has the type of x
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
