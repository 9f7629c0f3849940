// Rotary position embedding.
//
//   ops::rope(s, {.x = q, .out = q, .positions = step.view(), .theta = 10000.0f});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

enum class RopeMode : std::uint8_t {
  interleaved,  // pairs (2i, 2i + 1)
  neox,         // pairs (i, i + rope_dim / 2)
  neox_full,    // pairs (i, i + head_dim / 2), exponent over head_dim, for rope_dim < head_dim
};

// Context extension. With t = position * theta^(-2i / dim) / freq_factors[i] the angle of pair i is
// t * (freq_scale * (1 - r) + r), where r = ext_factor * (1 - clamp((i - lo) / (hi - lo), 0, 1))
// and lo, hi are the pairs that turn beta_fast and beta_slow times over n_ctx_orig positions.
// Cosine and sine are multiplied by attn_factor, and with ext_factor != 0 also by 1 + 0.1 ln(1 /
// freq_scale). ext_factor = 0 is linear scaling.
struct RopeScaling {
  float freq_scale = 1.0f;
  float ext_factor = 0.0f;
  float attn_factor = 1.0f;
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  std::uint32_t n_ctx_orig = 0;  // needed with ext_factor
};

// x, out [rows, heads, head_dim]; out may be x.
struct Rope {
  Tensor x;
  Tensor out;
  View positions;  // a StepState, or u32 [rows] with positions_are_u32
  bool positions_are_u32 = false;
  float theta = 10000.0f;
  RopeMode mode = RopeMode::interleaved;
  std::uint32_t rope_dim = 0;  // 0: head_dim
  Tensor freq_factors{};       // f32 [rope_dim / 2] or none
  RopeScaling scaling{};
};
void rope(GraphSession& s, const Rope& a, Here here = Here::now());

}  // namespace onepass::ops
