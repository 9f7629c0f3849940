// Products with weights, which have one row per output.
//
//   ops::matmul(s, {.x = n, .weight = wq, .out = q});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// out[m, n] = sum_k x[m, k] * weight[n, k]. x f32 [m, k], weight any format [n, k], out f32. Where
// the device's kernel for the weights takes quantized activations, x is quantized first; x may also
// be q8a already.
struct Matmul {
  Tensor x;
  Tensor weight;
  Tensor out;
};
void matmul(GraphSession& s, const Matmul& a, Here here = Here::now());

// MLX affine weights: w = q * scale + bias per group along k. weight u32 packed rows.
struct MatmulAffine {
  Tensor x;                       // f32 [m, k]
  Tensor weight;                  // u32 [n, k * bits / 32]
  Tensor scales;                  // f32, f16 or bf16 [n, k / group_size]
  Tensor biases;                  // as scales
  Tensor out;                     // f32 [m, n]
  std::uint32_t bits = 4;         // 2, 3, 4, 6 or 8
  std::uint32_t group_size = 64;  // 32, 64 or 128
};
void matmul_affine(GraphSession& s, const MatmulAffine& a, Here here = Here::now());

// out[t, j, n] = sum_k x[t, k] * weight[ids[t, j], n, k], or x[t, j, k] in place of x[t, k].
struct MatmulId {
  Tensor x;       // f32 [tokens, k] or [tokens, used, k]; q8a as for matmul
  Tensor weight;  // [experts, n, k]
  Tensor ids;     // u32 [tokens, used]; an id out of range gives zeros
  Tensor out;     // f32 [tokens, used, n]
};
void matmul_id(GraphSession& s, const MatmulId& a, Here here = Here::now());

}  // namespace onepass::ops
