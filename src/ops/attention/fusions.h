#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

// attention, then quantize of its rows: attention_q.
bool fuse_attention_q(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// rope_store of one row, then attention_q of its queries over the caches it wrote:
// rope_attention_q. Halves in the caches, heads of 64 or 128 elements that turn whole, at most 8
// for a kv head.
bool fuse_rope_attention(const Dispatch& first, const Dispatch& second, Dispatch& fused);

}  // namespace onepass::ops
