// Rows of a table.
//
//   ops::embed(s, {.table = tokens, .out = h, .tokens = step.view()});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// out[row, :] = scale * table[token of row, :], tokens from a StepState or u32 [rows]. A token
// outside the table gives zeros.
struct Embed {
  Tensor table;  // f32, f16, bf16, a block format or a packed one [vocab, dim]
  Tensor out;    // f32 [rows, dim]
  View tokens;
  bool tokens_are_u32 = false;
  bool by_position = false;  // with a StepState: table[position of row, :]
  float scale = 1.0f;
};
void embed(GraphSession& s, const Embed& a, Here here = Here::now());

// The same from MLX affine weights.
struct EmbedAffine {
  Tensor weight;  // u32 [vocab, dim * bits / 32]
  Tensor scales;  // f32, f16 or bf16 [vocab, dim / group_size]
  Tensor biases;  // as scales
  Tensor out;     // f32 [rows, dim]
  View tokens;
  bool tokens_are_u32 = false;
  std::uint32_t bits = 4;         // 2, 3, 4, 6 or 8
  std::uint32_t group_size = 64;  // 32, 64 or 128
  float scale = 1.0f;
};
void embed_affine(GraphSession& s, const EmbedAffine& a, Here here = Here::now());

}  // namespace onepass::ops
