// Mixture of experts: which experts a token uses, and the sum of what they give.
//
//   ops::moe_gate(s, {.logits = router, .ids = ids, .weights = w});
//   ops::matmul_id(s, {.x = h, .weight = down, .ids = ids, .out = y});
//   ops::moe_reduce(s, {.y = y, .weights = w, .out = h, .residual = h});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

enum class MoeScore : std::uint8_t { softmax, sigmoid };

// Per token: p = score(logits) over all experts; the `used` experts with the largest p + bias, the
// lower id on ties; their p, divided by max(sum, 2^-14) where they are renormalised, times scale
// and the expert's own.
struct MoeGate {
  Tensor logits;          // f32 [tokens, experts], at most 1024 experts
  Tensor ids;             // u32 [tokens, used]
  Tensor weights;         // f32 [tokens, used]
  Tensor bias{};          // f32 [experts] or none: for the choice only
  Tensor expert_scale{};  // f32 [experts] or none
  MoeScore score = MoeScore::softmax;
  bool renormalise = true;
  float scale = 1.0f;
};
void moe_gate(GraphSession& s, const MoeGate& a, Here here = Here::now());

// clamped_silu: g * sigmoid(1.702 g) * (u + 1) of g = min(gate, 7) and u = up within -7 and 7.
enum class GateActivation : std::uint8_t { silu, gelu, gelu_erf, relu2, clamped_silu };

// out = activation(gate + b) * (up + c), where b and c are the rows of gate_bias and up_bias for
// the row's expert, or 0; an id out of range has none. All biases or none.
struct Gated {
  Tensor gate;  // f32 [rows, dim] or [tokens, used, dim]
  Tensor up;    // as gate
  Tensor out;   // as gate, may be gate or up; or q8a [rows, dim]
  GateActivation activation = GateActivation::silu;
  Tensor ids{};        // u32, one for each row
  Tensor gate_bias{};  // f32 [experts, dim]
  Tensor up_bias{};
};
void gated(GraphSession& s, const Gated& a, Here here = Here::now());

// out[t, :] = sum over k of weights[t, k] * (y[t, k, :] [+ bias[ids[t, k], :]])
// [+ sigmoid(shared_gate[t]) * shared[t, :]] [+ residual[t, :]], in this order. Without
// shared_gate, shared is added as it is. An id out of range has no bias.
struct MoeReduce {
  Tensor y;        // f32 [tokens, used, dim]
  Tensor weights;  // f32 [tokens, used]
  Tensor out;      // f32 [tokens, dim]; may be residual or shared
  Tensor residual{};
  Tensor shared{};
  Tensor shared_gate{};  // f32 [tokens]
  Tensor ids{};          // u32 [tokens, used], with bias
  Tensor bias{};         // f32 [experts, dim]
};
void moe_reduce(GraphSession& s, const MoeReduce& a, Here here = Here::now());

}  // namespace onepass::ops
