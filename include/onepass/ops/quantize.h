// Conversion of f32 rows to a block format.
//
//   ops::quantize(s, {.x = h, .out = s.scratch(DType::q8a, {1, 4096})});
#pragma once

#include "onepass/ops/common.h"

namespace onepass::ops {

// out = x in blocks along the last dimension. x f32, out q8a of the same shape.
struct Quantize {
  Tensor x;
  Tensor out;
};
void quantize(GraphSession& s, const Quantize& a, Here here = Here::now());

}  // namespace onepass::ops
