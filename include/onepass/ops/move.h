// Ops that move elements without changing them.
//
//   ops::gather(s, {.x = rows, .indices = ids, .out = picked});
//   ops::slice(s, {.x = qkv, .out = k, .start = q_dim});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// Any type; out has as many elements in any shape.
void copy(GraphSession& s, const Unary& a, Here here = Here::now());

// out[i, :] = x[indices[i], :]. An index beyond the rows takes the last one. Any type whose rows
// are not interleaved.
struct Gather {
  Tensor x;        // [rows, cols]
  Tensor indices;  // u32 [n]
  Tensor out;      // [n, cols]
};
void gather(GraphSession& s, const Gather& a, Here here = Here::now());

// Swaps the last two dimensions or, with keep_last, the two before the last. Element types only.
struct Transpose {
  Tensor x;    // [..., a, b] or [..., a, b, c]
  Tensor out;  // [..., b, a] or [..., b, a, c]
  bool keep_last = false;
};
void transpose(GraphSession& s, const Transpose& a, Here here = Here::now());

// out[..., i] = x[..., start + i]. Element types only, as in put and concat.
struct Slice {
  Tensor x;
  Tensor out;
  std::uint32_t start = 0;
};
void slice(GraphSession& s, const Slice& a, Here here = Here::now());

// into[..., start + i] = x[..., i]; the other columns stay.
struct Put {
  Tensor x;
  Tensor into;
  std::uint32_t start = 0;
};
void put(GraphSession& s, const Put& a, Here here = Here::now());

// out = [a | b]: rows of a, each followed by the row of b.
struct Concat {
  Tensor a;
  Tensor b;
  Tensor out;
};
void concat(GraphSession& s, const Concat& a, Here here = Here::now());

}  // namespace onepass::ops
