// From logits to the next pass.
//
//   ops::sample(s, {.logits = logits, .out = tokens, .step = step.view(), .top_k = 40});
//   ops::step_advance(s, {.tokens = tokens, .step = step.view()});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// Larger numbers come first, equal ones in the order of their index, what is not a number last.

// out u32 [rows]: index of the largest value of each row, the lowest on ties.
void argmax(GraphSession& s, const Unary& a, Here here = Here::now());

// out u32 of x's shape: indices of each row's values, largest first.
void argsort(GraphSession& s, const Unary& a, Here here = Here::now());

// The k largest values of each row and where they are.
struct TopK {
  Tensor x;       // f32 [rows, cols]
  Tensor values;  // f32 [rows, k]
  Tensor ids;     // u32 [rows, k]
};
void top_k(GraphSession& s, const TopK& a, Here here = Here::now());

// One token for each row of the step. In this order: logits / temperature; the top_k largest;
// softmax over them; the shortest prefix with at least top_p of the probability; those with at
// least min_p times the largest one. The draw is Philox4x32-10 with the step's seed as key and
// {position, slot, 0, 0} of the row as counter. All in f32, sums in sorted order: the token is a
// function of these numbers alone.
struct Sample {
  Tensor logits;  // f32 [rows, vocab]
  Tensor out;     // u32 [rows]
  View step;
  float temperature = 1.0f;  // 0: the largest logit
  std::uint32_t top_k = 0;   // 0: all. Above 512 the whole row is sorted
  float top_p = 1.0f;        // 1: all
  float min_p = 0.0f;
};
void sample(GraphSession& s, const Sample& a, Here here = Here::now());

// Device feedback: row r takes tokens[r], its position and its slot's length grow by one.
struct StepAdvance {
  Tensor tokens;  // u32 [rows]
  View step;
  Tensor history{};  // u32 [rows, n], optional: the token goes to column (its position) % n as well
};
void step_advance(GraphSession& s, const StepAdvance& a, Here here = Here::now());

}  // namespace onepass::ops
