#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

// attention, then quantize of its rows: attention_q.
bool fuse_attention_q(const Dispatch& first, const Dispatch& second, Dispatch& fused);

}  // namespace onepass::ops
