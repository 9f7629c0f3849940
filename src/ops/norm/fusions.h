#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

// rms_norm, then mul of its whole output with another tensor of that shape: one rms_norm_mul.
bool fuse_rms_norm_mul(const Dispatch& first, const Dispatch& second, Dispatch& fused);

}  // namespace onepass::ops
