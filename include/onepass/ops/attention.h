// Attention over a cache.
//
//   ops::attention(s, {.q = q, .k = k_cache, .v = v_cache, .out = o, .step = step.view()});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// Causal attention of the pass's rows over a cache. q, out [rows, heads, head_dim];
// k, v [slots, kv_heads, capacity, head_dim]. With a StepState, row r sees the keys of its slot up
// to its position; without, the rows are the last of kv_len keys.
struct Attention {
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor out;
  float scale = 0.0f;        // 0: 1 / sqrt(head_dim)
  View step{};               // StepState or none
  std::uint32_t kv_len = 0;  // without step
  bool causal = true;
  std::uint32_t window = 0;  // keys including the row itself; 0: all
  float softcap = 0.0f;      // 0: none
};
void attention(GraphSession& s, const Attention& a, Here here = Here::now());

}  // namespace onepass::ops
