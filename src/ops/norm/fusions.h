#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

// rms_norm, then mul by a tensor of its output's shape. Kept: the norm is stored as well.
bool fuse_norm_mul(const Dispatch& first, const Dispatch& second, Dispatch& fused);
bool fuse_norm_mul_kept(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// add, then rms_norm of the sum, which is stored as well.
bool fuse_add_norm(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// rms_norm, then quantize of its rows.
bool fuse_norm_quantized(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// rms_norm, then add of a tensor of its output's shape.
bool fuse_norm_add(const Dispatch& first, const Dispatch& second, Dispatch& fused);

}  // namespace onepass::ops
