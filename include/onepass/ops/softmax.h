// Softmax over the last dimension.
//
//   ops::softmax(s, {.x = scores, .out = p, .mask = mask, .scale = 0.125f});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// out = softmax(x * scale + mask), rows of the last dimension. mask is f32 or bf16
// [mask_rows, cols] or none; row r of x uses row r % mask_rows, so x [heads, seq_q, cols] shares
// one mask [seq_q, cols]. A row with nothing but minus infinity, or where the mask leaves nothing
// above -1e30, gives zeros. out may be x.
struct Softmax {
  Tensor x;
  Tensor out;
  Tensor mask{};
  float scale = 1.0f;
};
void softmax(GraphSession& s, const Softmax& a, Here here = Here::now());

}  // namespace onepass::ops
