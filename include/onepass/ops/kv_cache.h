// Writing keys and values.
//
//   ops::kv_store(s, {.x = k, .cache = k_cache, .step = step.view()});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// cache[slot, h, position, :] = x[row, h, :] for every row of the step. The recorded range is the
// whole cache: every legal position.
struct KvStore {
  Tensor x;      // [rows, kv_heads, head_dim]
  Tensor cache;  // [slots, kv_heads, capacity, head_dim]
  View step;
};
void kv_store(GraphSession& s, const KvStore& a, Here here = Here::now());

}  // namespace onepass::ops
