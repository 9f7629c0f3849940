// Elementwise ops. Computed in f32, rounded once to the dtype of the tensors.
//
//   ops::silu_mul(s, {.a = gate, .b = up, .out = h});
//   ops::add(s, {.a = q, .b = q_bias, .out = q});  // b [dim]: added to every row
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// Elementwise, equal shapes and types f32, f16 or bf16. out may be an input.
struct Binary {
  Tensor a;
  Tensor b;
  Tensor out;
};
// b may also be one row [dim] for a of [..., dim].
void add(GraphSession& s, const Binary& a, Here here = Here::now());
void mul(GraphSession& s, const Binary& a, Here here = Here::now());
// Gates: activation(a) * b.
void silu_mul(GraphSession& s, const Binary& a, Here here = Here::now());
void gelu_mul(GraphSession& s, const Binary& a, Here here = Here::now());
void gelu_erf_mul(GraphSession& s, const Binary& a, Here here = Here::now());
void sigmoid_mul(GraphSession& s, const Binary& a, Here here = Here::now());

// Activations. out may be x.
void silu(GraphSession& s, const Unary& a, Here here = Here::now());
void gelu(GraphSession& s, const Unary& a, Here here = Here::now());      // tanh form
void gelu_erf(GraphSession& s, const Unary& a, Here here = Here::now());  // x * Phi(x)
void relu2(GraphSession& s, const Unary& a, Here here = Here::now());     // max(x, 0)^2
void sigmoid(GraphSession& s, const Unary& a, Here here = Here::now());

// y = cap * tanh(x / cap).
struct Softcap {
  Tensor x;
  Tensor out;
  float cap;
};
void softcap(GraphSession& s, const Softcap& a, Here here = Here::now());

// y = factor * x.
struct Scale {
  Tensor x;
  Tensor out;
  float factor;
};
void scale(GraphSession& s, const Scale& a, Here here = Here::now());

// Between f32, f16 and bf16; to nearest, ties to even.
void cast(GraphSession& s, const Unary& a, Here here = Here::now());

}  // namespace onepass::ops
