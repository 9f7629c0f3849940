#pragma once

#include "onepass/dispatch.h"

namespace onepass::ops {

// All of them make a rope_store. Positions come from a StepState, values are f32.

// rms_norm of heads, then rope.
bool fuse_norm_rope(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// rope, or rope_store of queries alone, whose result is stored in a cache: these were keys.
bool fuse_rope_kv_store(const Dispatch& first, const Dispatch& second, Dispatch& fused);
bool fuse_rope_store_kv_store(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// Queries and keys that rotate alike.
bool fuse_rope_pair(const Dispatch& first, const Dispatch& second, Dispatch& fused);
// Keys and the store of their values.
bool fuse_rope_store_values(const Dispatch& first, const Dispatch& second, Dispatch& fused);

}  // namespace onepass::ops
