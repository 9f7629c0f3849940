// Attention over a cache.
//
//   ops::attention(s, {.q = q, .k = k_cache, .v = v_cache, .out = o, .step = step.view()});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// Causal attention of the pass's rows over a cache. q, out [rows, heads, head_dim] of f32, head_dim
// a multiple of 8 up to 512; k, v [slots, kv_heads, capacity, head_dim] of f32, f16 or q8_0,
// linear, ring or paged (kv_cache.h). With a StepState, row r sees the keys of its slot up to its
// position; without, the rows are the last of kv_len keys of slot 0 or of the page list's start.
// out may also be q8a [rows, heads * head_dim]: the result as quantize would store it.
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
  float softcap = 0.0f;      // 0: none; score = cap * tanh(score / cap)
  Tensor sinks{};            // f32 [heads] or none: one more score per head, without a value
  View pages{};              // u32 page ids or none
  bool ring = false;         // needs a window, and room for it beside the pass's other rows
};
void attention(GraphSession& s, const Attention& a, Here here = Here::now());

}  // namespace onepass::ops
