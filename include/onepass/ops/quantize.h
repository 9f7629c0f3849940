// Conversion between f32 rows and block formats.
//
//   ops::quantize(s, {.x = h, .out = blocks});  // q8_0: 34 bytes for 32 numbers
#pragma once

#include "onepass/ops/common.h"

namespace onepass::ops {

// out = x in blocks along the last dimension. x f32, out q8a or a GGUF block
// format, of the same shape.
struct Quantize {
  Tensor x;
  Tensor out;
};
void quantize(GraphSession& s, const Quantize& a, Here here = Here::now());

// f32 from q8a, a block format or a packed matrix of the same shape.
void dequantize(GraphSession& s, const Unary& a, Here here = Here::now());

}  // namespace onepass::ops
