#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

// attention, then quantize of its rows.
bool fuse_attention_quantized(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// rope_store, then attention of its queries over the caches it wrote, with quantized output.
bool fuse_rope_attention(const Dispatch& first, const Dispatch& second, Dispatch& fused);

}  // namespace onepass::ops
