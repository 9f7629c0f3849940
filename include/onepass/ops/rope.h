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
};
void rope(GraphSession& s, const Rope& a, Here here = Here::now());

}  // namespace onepass::ops
