#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

// matmul, then add of one row to every row of its output.
bool fuse_bias(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// matmul, perhaps with bias, then add of a tensor of its output's shape.
bool fuse_residual(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// Products of the same x, up to three.
bool fuse_parts(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// matmul with two parts of equal rows and silu_mul, gelu_mul or gelu_erf_mul of its outputs.
bool fuse_gate(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// matmul with one output, then quantize of its rows.
bool fuse_matmul_quantized(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// rms_norm with quantized output, then products of it.
bool fuse_normed(const Dispatch& first, const Dispatch& second, Dispatch& fused);

}  // namespace onepass::ops
