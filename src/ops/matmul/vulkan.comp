// Products with rows of weights. A group has a row of the weights and up to 4 rows of x; its
// threads take 32 values at a time in turn, and their sums are added in the order of their numbers.
// With alone != 0 a thread has a row of the weights of its own, and nobody waits for anybody:
// software drivers are faster so.
// MATMUL: 0 matmul, 1 matmul_affine, 2 matmul_id.
#version 450
#define OP_GLSL
#include "ops/matmul/params.h"
#if MATMUL == 0
#define OP_PARAMS MatmulParams
#define PRODUCT params
#elif MATMUL == 1
#define OP_PARAMS MatmulAffineParams
#define PRODUCT params.product
#else
#define OP_PARAMS MatmulIdParams
#define PRODUCT params.product
#endif
#include "ops/shared/vulkan.glsl"

OP_VALUE(0, uint, format)
OP_VALUE(1, uint, block_elements)
OP_VALUE(2, uint, block_bytes)
OP_VALUE(3, uint, alone)

#define WEIGHT_VIEW 1
OP_READS(0, x)
OP_READS(1, weight)
OP_WRITES(2, result)
OP_READS(3, bias)
OP_READS(10, residual)
#if MATMUL == 1
OP_READS(12, scales)
OP_READS(13, biases)
#elif MATMUL == 2
OP_READS(12, ids)
#endif
#include "quant/blocks.glsl"

const uint columns = 4u, most_threads = 64u;
shared float sums[columns * most_threads];

#if MATMUL == 1
// Numbers of so many bits; scale and bias of their group.
void row_values(uint n, uint i, out float v[32]) {
  uint bits = params.bits, groups = PRODUCT.k / params.group_size;
  uint at = n * (PRODUCT.k * bits / 8u) + 4u * bits * i;
  uint group = n * groups + 32u * i / params.group_size;
  float scale = scales_load(format, group), shift = biases_load(format, group);
  for (uint e = 0u; e < 32u; ++e) {
    uint first = e * bits, word = weight_byte(at + first / 8u);
    if (first % 8u + bits > 8u) word |= weight_byte(at + first / 8u + 1u) << 8u;
    v[e] = float(word >> first % 8u & (1u << bits) - 1u) * scale + shift;
  }
}
#else
void row_values(uint n, uint i, out float v[32]) {
  weight_values(format, block_elements, block_bytes, n, PRODUCT.k, i, v);
}
#endif

void finish(uint to, uint out_column, float y) {
#if MATMUL == 0
  if ((params.form & form_bias) != 0u && is_bound(3u)) y += bias_float(out_column);
  if ((params.form & form_residual) != 0u) y += residual_float(to);
#endif
  result_set_float(to, y);
}

// Row n of the weights with rows [m0, m0 + count) of x, which begin at row x0 of it.
void multiply(uint n, uint m0, uint x0, uint count, uint out_column) {
  uint me = alone != 0u ? 0u : gl_LocalInvocationID.x;
  uint threads = alone != 0u ? 1u : gl_WorkGroupSize.x, k = PRODUCT.k;
  float acc[columns] = float[columns](0.0, 0.0, 0.0, 0.0);
  for (uint i = me; 32u * i < k; i += threads) {
    float v[32];
    row_values(n, i, v);
    uint most = min(k - 32u * i, 32u);
    for (uint c = 0u; c < columns; ++c) {
      if (c >= count) break;
      uint at = (x0 + c) * k + 32u * i;
      float s = 0.0;
      if (most == 32u) {
        for (uint e = 0u; e < 32u; ++e) s += v[e] * x_float(at + e);
      } else {
        for (uint e = 0u; e < most; ++e) s += v[e] * x_float(at + e);
      }
      acc[c] += s;
    }
  }
  if (alone != 0u) {
    for (uint c = 0u; c < columns; ++c) {
      if (c < count) finish((m0 + c) * PRODUCT.n0 + out_column, out_column, acc[c]);
    }
    return;
  }
  barrier();
  for (uint c = 0u; c < columns; ++c) sums[c * most_threads + me] = acc[c];
  barrier();
  for (uint c = me; c < count; c += threads) {
    float y = 0.0;
    for (uint t = 0u; t < threads; ++t) y += sums[c * most_threads + t];
    finish((m0 + c) * PRODUCT.n0 + out_column, out_column, y);
  }
}

void main() {
  uint first = alone != 0u ? flat_thread() : gl_WorkGroupID.x;
  uint step = alone != 0u ? flat_threads() : gl_NumWorkGroups.x;
#if MATMUL == 2
  uint bound = params.bound_experts != 0u ? params.bound_experts : params.experts;
  for (uint pair = gl_WorkGroupID.y; pair < PRODUCT.m; pair += gl_NumWorkGroups.y) {
    uint expert = ids_word(pair);
    bool none = expert >= params.experts;
    if (none ? params.first_expert != 0u : expert - params.first_expert >= bound) continue;
    for (uint n = first; n < PRODUCT.n0; n += step) {
      if (none) {
        if (alone != 0u || gl_LocalInvocationID.x == 0u) result_set_float(pair * PRODUCT.n0 + n, 0.0);
        continue;
      }
      uint x0 = params.pair_rows != 0u ? pair : pair / params.used;
      multiply((expert - params.first_expert) * PRODUCT.n0 + n, pair, x0, 1u, n);
    }
  }
#else
  for (uint m0 = columns * gl_WorkGroupID.y; m0 < PRODUCT.m; m0 += columns * gl_NumWorkGroups.y) {
    for (uint n = first; n < PRODUCT.n0; n += step) {
      multiply(n, m0, m0, min(PRODUCT.m - m0, columns), n);
    }
  }
#endif
}
