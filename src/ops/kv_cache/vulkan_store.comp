// A group stores one head of one row.
#version 450
#define OP_GLSL
#include "ops/kv_cache/params.h"
#define OP_PARAMS KvStoreParams
#include "ops/shared/vulkan.glsl"
#include "ops/shared/vulkan_cache.glsl"

OP_VALUE(0, uint, type)

OP_READS(0, x)
OP_READS(1, step)
OP_READS(2, pages)
OP_WRITES(3, cache)
#define PAGES_VIEW 2u
#include "ops/shared/vulkan_step.glsl"
OP_CACHE_STORES(cache, x_float)

void main() {
  Step s = read_step();
  Places places =
      Places(params.slots, params.kv_heads, params.capacity, params.ring, count_pages());
  uint heads = min(params.rows, s.n_rows) * params.kv_heads;
  for (uint i = gl_WorkGroupID.x; i < heads; i += gl_NumWorkGroups.x) {
    uint row = i / params.kv_heads, slot = step_slot_of(row), page_offset = 0u;
    if (places.n_pages != 0u) {
      if (slot >= s.n_slots) continue;
      page_offset = step_page_offset(s, slot);
    }
    uint place = find_place(places, slot, page_offset, i % params.kv_heads, step_position(row));
    if (place != no_place) cache_store_row(type, place, params.head_dim, i * params.head_dim);
  }
}
