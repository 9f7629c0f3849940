#ifndef ONEPASS_OPS_KV_CACHE_PARAMS_H_
#define ONEPASS_OPS_KV_CACHE_PARAMS_H_

#include "ops/shared/lang.h"

OP_BEGIN_NAMESPACE

struct KvStoreParams {
  op_u32 rows;
  op_u32 kv_heads;
  op_u32 head_dim;
  op_u32 slots;
  op_u32 capacity;
};

OP_END_NAMESPACE

#endif  // ONEPASS_OPS_KV_CACHE_PARAMS_H_
