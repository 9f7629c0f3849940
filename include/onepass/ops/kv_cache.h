// Writing keys and values.
//
//   ops::kv_store(s, {.x = k, .cache = k_cache, .step = step.view()});
//
// A cache is [slots, kv_heads, capacity, head_dim] of f32, f16 or q8_0. Linear: position p of a
// slot lies at p. Ring: at p % capacity. Paged: [pages, kv_heads, 256, head_dim] and a list of u32
// page ids; position p of a slot lies in page list[page_offset + p / 256] at p % 256, page_offset
// from the slot's entry in the StepState.
//
// How many positions a slot holds is StepSlot::kv_length alone, in positions ever stored, also for
// rings: to truncate a slot, run the next pass with a smaller kv_length and positions from there.
// Keys at or beyond the length are never read, so nothing needs erasing. A ring of `capacity` can
// be truncated by up to capacity - window positions.
#pragma once

#include <cstdint>

#include "onepass/ops/common.h"

namespace onepass::ops {

// cache[place of the row's slot and position, h, :] = x[row, h, :] for every row of the step; rows
// without a place in the cache are not stored. The recorded range is the whole cache: every legal
// position. Rows of one pass must have different places.
struct KvStore {
  Tensor x;  // f32 [rows, kv_heads, head_dim]
  Tensor cache;
  View step;
  View pages{};
  bool ring = false;
};
void kv_store(GraphSession& s, const KvStore& a, Here here = Here::now());

// Copies the first n positions of every head from one slot to another; of a ring with n >=
// capacity, all of it. On a paged cache the slots are pages. Slots are fixed when recorded.
struct KvCopy {
  Tensor cache;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t n = 0;
  bool ring = false;
};
void kv_copy(GraphSession& s, const KvCopy& a, Here here = Here::now());

}  // namespace onepass::ops
