// A group per head of a row. Heads are numbered row by row, those of q before those of k and v.
#version 450
#define OP_GLSL
#include "ops/rope/params.h"
#define OP_PARAMS RopeStoreParams
#include "ops/shared/vulkan.glsl"
#include "ops/shared/vulkan_cache.glsl"

OP_VALUE(0, uint, k_type)
OP_VALUE(1, uint, v_type)

OP_READS(0, q)
OP_READS(1, q_norm)
OP_READS(2, k)
OP_READS(3, k_norm)
OP_READS(4, v)
OP_READS(5, step)
OP_READS(6, factors)
OP_READS(7, pages)
OP_WRITES(8, q_out)
OP_WRITES(9, k_cache)
OP_WRITES(10, v_cache)
#define PAGES_VIEW 7u
#include "ops/shared/vulkan_step.glsl"
#include "ops/shared/vulkan_turn.glsl"

shared float head_values[512];
float head_value(uint e) { return head_values[e]; }
OP_CACHE_STORES(k_cache, head_value)
OP_CACHE_STORES(v_cache, head_value)

const uint kind_q = 0u, kind_k = 1u, kind_v = 2u;

float load(uint kind, uint i) {
  return kind == kind_q ? q_float(i) : kind == kind_k ? k_float(i) : v_float(i);
}

// The head in head_values, as f32, normed and turned unless it is one of v.
void prepare(uint kind, uint first, uint position) {
  uint me = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x;
  float sum = 0.0;
  for (uint e = me; e < params.head_dim; e += threads) {
    float value = load(kind, first + e);
    head_values[e] = value;
    sum += value * value;
  }
  bool normed = kind == kind_q ? is_bound(1u) : kind == kind_k ? is_bound(3u) : false;
  if (normed) {
    sum = group_sum(sum);
    float eps = kind == kind_q ? params.q_eps : params.k_eps;
    float r = 1.0 / sqrt(sum / float(params.head_dim) + eps);
    for (uint e = me; e < params.head_dim; e += threads) {
      float weight = kind == kind_q ? q_norm_float(e) : k_norm_float(e);
      head_values[e] = head_values[e] * r * weight;
    }
  }
  barrier();
  if (kind != kind_v) {
    for (uint i = me; i < params.angles.pairs; i += threads) {
      OpPair turn = rotation(params.angles, i, position, is_bound(6u));
      uint e0 = i * params.angles.step, e1 = e0 + params.angles.distance;
      float x0 = head_values[e0], x1 = head_values[e1];
      head_values[e0] = x0 * turn.hi - x1 * turn.lo;
      head_values[e1] = x0 * turn.lo + x1 * turn.hi;
    }
  }
  barrier();
}

void main() {
  Step s = read_step();
  Places places =
      Places(params.slots, params.kv_heads, params.capacity, params.ring, count_pages());
  uint q_heads = is_bound(0u) ? params.heads : 0u;
  uint k_heads = is_bound(2u) ? params.kv_heads : 0u;
  uint v_heads = is_bound(4u) ? params.kv_heads : 0u;
  uint all = q_heads + k_heads + v_heads, n = min(params.rows, s.n_rows) * all;
  for (uint at = gl_WorkGroupID.x; at < n; at += gl_NumWorkGroups.x) {
    uint row = at / all, head = at % all;
    uint kind = head < q_heads ? kind_q : head < q_heads + k_heads ? kind_k : kind_v;
    head -= kind == kind_q ? 0u : kind == kind_k ? q_heads : q_heads + k_heads;
    uint position = step_position(row);
    uint first = (row * (kind == kind_q ? params.heads : params.kv_heads) + head) * params.head_dim;
    barrier();
    prepare(kind, first, position);
    if (kind == kind_q) {
      for (uint e = gl_LocalInvocationID.x; e < params.head_dim; e += gl_WorkGroupSize.x) {
        q_out_set_float(first + e, head_values[e]);
      }
      continue;
    }
    uint slot = step_slot_of(row), page_offset = 0u;
    if (places.n_pages != 0u) {
      if (slot >= s.n_slots) continue;
      page_offset = step_page_offset(s, slot);
    }
    uint place = find_place(places, slot, page_offset, head, position);
    if (place == no_place) continue;
    if (kind == kind_k) {
      k_cache_store_row(k_type, place, params.head_dim, 0u);
    } else {
      v_cache_store_row(v_type, place, params.head_dim, 0u);
    }
  }
}
