// A group per row. NORM: 0 rms_norm with its forms, 1 l2_norm, 2 layer_norm.
#version 450
#define OP_GLSL
#include "ops/norm/params.h"
#if NORM == 0
#define OP_PARAMS RmsNormParams
#elif NORM == 1
#define OP_PARAMS L2NormParams
#else
#define OP_PARAMS LayerNormParams
#endif
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, type)

OP_READS(0, x)
#if NORM == 0
OP_READS(1, weight)
OP_WRITES(2, result)
OP_READS(3, other)
OP_WRITES(4, also)
#elif NORM == 1
OP_WRITES(1, result)
#else
OP_READS(1, weight)
OP_READS(2, bias)
OP_WRITES(3, result)
#endif

// What is normed: element e of the row that begins at `at`. The form that norms a sum stores it.
float first_load(uint at, uint e) {
  float v = x_load(type, at + e);
#if NORM == 0
  if ((params.form & form_sum) != 0u) {
    v = kept(type, v + other_load(type, at + e));
    also_store(type, at + e, v);
  }
#endif
  return v;
}
float load_again(uint at, uint e) {
#if NORM == 0
  if ((params.form & form_sum) != 0u) return also_load(type, at + e);
#endif
  return x_load(type, at + e);
}

void finish(uint at, uint e, float y) {
#if NORM != 1
  uint weight_type = params.weight_is_f32 != 0u ? type_f32 : type;
  if (is_bound(1u)) y *= weight_load(weight_type, e);
#endif
#if NORM == 2
  if (is_bound(2u)) y += bias_load(weight_type, e);
#endif
#if NORM == 0
  if ((params.form & form_product) != 0u) {
    if (is_bound(norm_also)) also_store(type, at + e, y);
    y = kept(type, y) * other_load(type, at + e);
  }
  if ((params.form & form_residual) != 0u) y = other_load(type, at + e) + kept(type, y);
#endif
  result_store(type, at + e, y);
}

void main() {
  uint me = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;
  for (uint row = gl_WorkGroupID.x; row < params.rows; row += gl_NumWorkGroups.x) {
    uint at = row * params.dim;
    float sum = 0.0;
    for (uint e = me; e < params.dim; e += threads) {
      float v = first_load(at, e);
      sum += NORM == 2 ? v : v * v;
    }
    sum = group_sum(sum);
    float count = float(params.dim), mean = 0.0;
#if NORM == 2
    mean = sum / count;
    sum = 0.0;
    for (uint e = me; e < params.dim; e += threads) {
      float v = x_load(type, at + e) - mean;
      sum += v * v;
    }
    sum = group_sum(sum);
#endif
    float r = 1.0 / sqrt((NORM == 1 ? sum : sum / count) + params.eps);
    for (uint e = me; e < params.dim; e += threads) finish(at, e, (load_again(at, e) - mean) * r);
  }
}
