// Rows of a table as f32. group.x: row; a thread writes 32 values at a time.
#version 450
#define OP_GLSL
#include "ops/embed/params.h"
#ifdef AFFINE
#define OP_PARAMS EmbedAffineParams
#else
#define OP_PARAMS EmbedParams
#endif
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, format)
OP_VALUE(1, uint, block_elements)
OP_VALUE(2, uint, block_bytes)

#define WEIGHT_VIEW 0
OP_READS(0, weight)
#ifdef AFFINE
OP_READS(1, scales)
OP_READS(2, biases)
OP_READS(3, step)
OP_WRITES(4, result)
#else
OP_READS(1, step)
OP_WRITES(2, result)
#endif
#include "ops/shared/vulkan_step.glsl"
#include "quant/blocks.glsl"

void row_values(uint row, uint i, out float v[32]) {
#ifdef AFFINE
  uint bits = params.bits;
  uint at = row * (params.dim * bits / 8u) + 4u * bits * i;
  uint group = row * (params.dim / params.group_size) + 32u * i / params.group_size;
  float scale = scales_load(format, group), shift = biases_load(format, group);
  for (uint e = 0u; e < 32u; ++e) {
    uint first = e * bits, word = weight_byte(at + first / 8u);
    if (first % 8u + bits > 8u) word |= weight_byte(at + first / 8u + 1u) << 8u;
    v[e] = float(word >> first % 8u & (1u << bits) - 1u) * scale + shift;
  }
#else
  weight_values(format, block_elements, block_bytes, row, params.dim, i, v);
#endif
}

void main() {
  bool plain = params.index == embed_by_u32;
  Step s = Step(params.rows, 0u, 0u);
  if (!plain) s = read_step();
  uint rows = min(params.rows, s.n_rows);
  uint bound = params.bound_rows != 0u ? params.bound_rows : params.vocab;
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    uint token = plain                               ? step_word(row)
                 : params.index == embed_by_position ? step_position(row)
                                                     : step_token(row);
    bool none = token >= params.vocab;
    if (none ? params.first_row != 0u : token - params.first_row >= bound) continue;
    for (uint i = gl_LocalInvocationID.x; 32u * i < params.dim; i += gl_WorkGroupSize.x) {
      float v[32];
      if (!none) row_values(token - params.first_row, i, v);
      for (uint e = 0u; e < min(params.dim - 32u * i, 32u); ++e) {
        float y = none ? 0.0 : params.scale != 1.0 ? v[e] * params.scale : v[e];
        result_set_float(row * params.dim + 32u * i + e, y);
      }
    }
  }
}
