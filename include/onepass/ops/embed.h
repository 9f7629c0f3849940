// Rows of a table.
//
//   ops::embed(s, {.table = tokens, .out = h, .tokens = step.view()});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// out[row, :] = table[token of row, :], tokens from a StepState or u32 [rows].
struct Embed {
  Tensor table;  // any format [vocab, dim]
  Tensor out;    // f32 [rows, dim]
  View tokens;
  bool tokens_are_u32 = false;
};
void embed(GraphSession& s, const Embed& a, Here here = Here::now());

}  // namespace onepass::ops
