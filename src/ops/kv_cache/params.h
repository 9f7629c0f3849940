#ifndef ONEPASS_OPS_KV_CACHE_PARAMS_H_
#define ONEPASS_OPS_KV_CACHE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

// Views: x, step, pages (may be empty), cache.
struct KvStoreParams {
  op_u32 rows;
  op_u32 kv_heads;
  op_u32 head_dim;
  op_u32 slots;     // with a page list: pages
  op_u32 capacity;  // with a page list: 256
  op_u32 ring;
};

// Views: the source slot, the target slot.
struct KvCopyParams {
  op_u32 kv_heads;
  op_u32 head_dim;
  op_u32 capacity;
  op_u32 positions;  // of each head, from 0
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_KV_CACHE_PARAMS_H_
