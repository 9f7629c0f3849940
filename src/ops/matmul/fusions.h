#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

// matmul, then add of one row to every row of its output: matmul_bias.
bool fuse_matmul_bias(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// matmul, then add of a tensor of its output's shape: matmul_add.
bool fuse_matmul_add(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// matmul_bias, then add of a tensor of its output's shape: matmul_bias_add.
bool fuse_matmul_bias_add(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// Two of matmul and matmul_bias over the same x: matmul_3 with two weights.
bool fuse_matmul_pair(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// matmul_3 with two weights and one more over the same x.
bool fuse_matmul_triple(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// matmul_3 with two weights of equal rows and silu_mul or gelu_mul of its outputs.
bool fuse_matmul_glu(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// matmul_glu, then quantize.
bool fuse_matmul_glu_q(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// rms_norm_q of one row, then products of it.
bool fuse_norm_matmul(const Dispatch& first, const Dispatch& second, Dispatch& fused);
bool fuse_norm_matmul_3(const Dispatch& first, const Dispatch& second, Dispatch& fused);
bool fuse_norm_matmul_glu_q(const Dispatch& first, const Dispatch& second, Dispatch& fused);

}  // namespace onepass::ops
