// Norms over the last dimension.
//
//   ops::rms_norm(s, {.x = h, .weight = w, .out = n, .eps = 1e-5f});
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// y = x * rsqrt(mean(x^2) + eps) [* weight]. x, out [rows, dim]; weight [dim] or none.
struct RmsNorm {
  Tensor x;
  Tensor weight{};
  Tensor out;
  float eps = 1e-5f;
};
void rms_norm(GraphSession& s, const RmsNorm& a, Here here = Here::now());

}  // namespace onepass::ops
