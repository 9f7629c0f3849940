// Norms over the last dimension.
//
//   ops::rms_norm(s, {.x = h, .weight = w, .out = n, .eps = 1e-5f});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// y = x * rsqrt(mean(x^2) + eps) [* weight]. x, out [rows, dim] of f32, f16 or bf16; weight [dim]
// of f32 or the type of x, or none. out may be x.
struct RmsNorm {
  Tensor x;
  Tensor weight{};
  Tensor out;
  float eps = 1e-5f;
};
void rms_norm(GraphSession& s, const RmsNorm& a, Here here = Here::now());

// y = x * rsqrt(sum(x^2) + eps).
struct L2Norm {
  Tensor x;
  Tensor out;
  float eps = 1e-6f;
};
void l2_norm(GraphSession& s, const L2Norm& a, Here here = Here::now());

// y = (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps) [* weight] [+ bias]. Weight and bias have
// one type: f32 or that of x.
struct LayerNorm {
  Tensor x;
  Tensor weight{};
  Tensor bias{};
  Tensor out;
  float eps = 1e-5f;
};
void layer_norm(GraphSession& s, const LayerNorm& a, Here here = Here::now());

// sum = x + residual; out = rms_norm(sum) [* weight]. sum and out may each be x or residual, but
// not the same memory.
struct AddRmsNorm {
  Tensor x;
  Tensor residual;
  Tensor weight{};
  Tensor sum;
  Tensor out;
  float eps = 1e-5f;
};
void add_rms_norm(GraphSession& s, const AddRmsNorm& a, Here here = Here::now());

// out = residual + rms_norm(x) [* weight]. out may be x or residual.
struct NormAdd {
  Tensor x;
  Tensor weight{};
  Tensor residual;
  Tensor out;
  float eps = 1e-5f;
};
void norm_add(GraphSession& s, const NormAdd& a, Here here = Here::now());

}  // namespace onepass::ops
