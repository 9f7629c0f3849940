#ifndef ONEPASS_OPS_ATTENTION_PARAMS_H_
#define ONEPASS_OPS_ATTENTION_PARAMS_H_

#include "ops/rope/params.h"
#include "ops/shared/forms.h"

OP_BEGIN_NAMESPACE

// Views: q, k, v, step (may be empty), pages (may be empty), sinks (may be empty), out.
struct AttentionParams {
  op_u32 form;
  op_u32 rows;
  op_u32 heads;
  op_u32 kv_heads;
  op_u32 head_dim;
  op_u32 slots;     // with a page list: pages
  op_u32 capacity;  // with a page list: 256
  op_u32 ring;
  op_u32 has_step;
  op_u32 kv_len;  // without a step
  op_u32 causal;
  op_u32 window;  // 0: all keys
  float scale;
  float softcap;  // 0: none
  op_u32 v_type;  // DType; that of k is the dispatch's format
};

// rope_store of one row, then attention of its queries, as q8a. Views: q, q_norm, k, k_norm, v,
// step, factors, pages, sinks, out, k_cache, v_cache; q_norm, k_norm, factors, pages, sinks may be
// empty.
struct RopeAttentionParams {
  RopeStoreParams store;
  op_u32 causal;
  op_u32 window;
  float scale;
  float softcap;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_ATTENTION_PARAMS_H_
