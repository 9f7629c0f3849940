#ifndef ONEPASS_OPS_ROPE_PARAMS_H_
#define ONEPASS_OPS_ROPE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// Pair i of a head is (i * step, i * step + distance). Its angle per position is the i-th power of
// ratio, over its frequency factor, times op_yarn_scale.
struct RopeAngles {
  op_u32 pairs;
  op_u32 step;
  op_u32 distance;
  float ratio_hi, ratio_lo;  // theta^(-2 / dim) as a sum
  float freq_scale;
  float ext_factor;
  float yarn_low, yarn_range;
  float magnitude;  // of cosine and sine
};

// Views: x, positions, factors (may be empty), out.
struct RopeParams {
  op_u32 rows;
  op_u32 heads;
  op_u32 head_dim;
  op_u32 positions_are_u32;  // else a StepState
  RopeAngles angles;
};

// Views: q, q_norm, k, k_norm, v, step, factors, pages, q_out, k_cache, v_cache. Empty views leave
// out a part: q with q_out, k with k_cache, v with v_cache, a norm (weights are f32), the factors,
// the page list. With 0 pairs nothing rotates.
struct RopeStoreParams {
  op_u32 rows;
  op_u32 heads;
  op_u32 kv_heads;
  op_u32 head_dim;
  float q_eps, k_eps;
  op_u32 slots;     // with a page list: pages
  op_u32 capacity;  // with a page list: 256
  op_u32 ring;
  op_u32 k_type, v_type;  // DType of the caches
  RopeAngles angles;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_ROPE_PARAMS_H_
