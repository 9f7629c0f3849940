// From logits to the next pass.
//
//   ops::argmax(s, {.x = logits, .out = tokens});
//   ops::step_advance(s, {.tokens = tokens, .step = step.view()});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// out u32 [rows]: index of the largest value of each row, the lowest on ties.
void argmax(GraphSession& s, const Unary& a, Here here = Here::now());

// Device feedback: row r takes tokens[r], its position and its slot's length grow by one.
struct StepAdvance {
  Tensor tokens;  // u32 [rows]
  View step;
};
void step_advance(GraphSession& s, const StepAdvance& a, Here here = Here::now());

}  // namespace onepass::ops
