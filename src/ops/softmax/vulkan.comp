// A group per row. Exponentials are computed twice: storing them first would round 16-bit results
// twice.
#version 450
#define OP_GLSL
#include "ops/softmax/params.h"
#define OP_PARAMS SoftmaxParams
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, type)

OP_READS(0, x)
OP_READS(1, mask)
OP_WRITES(2, result)

float score(uint row, uint i) {
  float s = x_load(type, row * params.cols + i) * params.scale;
  if (params.mask_rows == 0u) return s;
  uint mask_type = params.mask_is_f32 != 0u ? type_f32 : type_bf16;
  return s + mask_load(mask_type, row % params.mask_rows * params.cols + i);
}

void main() {
  uint me = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;
  float lowest = uintBitsToFloat(0xff800000u);
  for (uint row = gl_WorkGroupID.x; row < params.rows; row += gl_NumWorkGroups.x) {
    float top = lowest;
    for (uint i = me; i < params.cols; i += threads) {
      float s = score(row, i);
      top = s > top ? s : top;
    }
    top = group_max(top);
    // Masks hide with minus infinity or very large negative numbers.
    bool hidden = top == lowest || (params.mask_rows != 0u && top <= -1e30);
    float sum = 0.0;
    if (!hidden) {
      for (uint i = me; i < params.cols; i += threads) sum += op_exp(score(row, i) - top);
    }
    sum = group_sum(sum);
    for (uint i = me; i < params.cols; i += threads) {
      float s = score(row, i);
      float y = hidden ? (s != s ? s : 0.0) : op_exp(s - top) / sum;
      result_store(type, row * params.cols + i, y);
    }
  }
}
