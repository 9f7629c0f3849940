#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

// rms_norm, then mul of its whole output with another tensor of that shape: one rms_norm_mul.
bool fuse_rms_norm_mul(const Dispatch& first, const Dispatch& second, Dispatch& fused);

// rms_norm, then quantize of its rows: rms_norm_q.
bool fuse_rms_norm_q(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// add, then rms_norm of the sum, which stays: add_rms_norm.
bool fuse_add_rms_norm(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// add_rms_norm, then quantize of its rows: add_rms_norm_q.
bool fuse_add_rms_norm_q(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// rms_norm, then add of a tensor of that shape: norm_add.
bool fuse_norm_add(const Dispatch& first, const Dispatch& second, Dispatch& fused);

}  // namespace onepass::ops
