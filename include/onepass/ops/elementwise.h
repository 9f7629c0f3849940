// Elementwise ops.
//
//   ops::silu_mul(s, {.a = gate, .b = up, .out = h});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// Elementwise, equal shapes. out may be an input.
struct Binary {
  Tensor a;
  Tensor b;
  Tensor out;
};
void add(GraphSession& s, const Binary& a, Here here = Here::now());
void mul(GraphSession& s, const Binary& a, Here here = Here::now());
void silu_mul(GraphSession& s, const Binary& a, Here here = Here::now());  // silu(a) * b

void gelu(GraphSession& s, const Unary& a, Here here = Here::now());  // tanh form

// y = cap * tanh(x / cap).
struct Softcap {
  Tensor x;
  Tensor out;
  float cap;
};
void softcap(GraphSession& s, const Softcap& a, Here here = Here::now());

void copy(GraphSession& s, const Unary& a, Here here = Here::now());

}  // namespace onepass::ops
