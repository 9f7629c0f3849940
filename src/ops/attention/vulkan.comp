// Attention of one head of one row, by a group of 64 threads. Keys are taken 64 at a time, from
// multiples of 64 on: a thread has a key, then elements of the values.
#version 450
#define OP_GLSL
#include "ops/attention/params.h"
#define OP_PARAMS AttentionParams
#include "ops/shared/vulkan.glsl"
#include "ops/shared/vulkan_cache.glsl"

OP_VALUE(0, uint, k_type)
OP_VALUE(1, uint, v_type)

OP_READS(0, q)
OP_READS(1, k)
OP_READS(2, v)
OP_READS(3, step)
OP_READS(4, pages)
OP_READS(5, sinks)
OP_WRITES(6, result)
#define PAGES_VIEW 4u
#include "ops/shared/vulkan_step.glsl"
OP_CACHE_LOADS(k)
OP_CACHE_LOADS(v)

const uint threads = 64u, most_dim = 512u;
shared float query[most_dim];
shared float weights[threads];
shared uint places[threads];

float score(uint place) {
  float s = 0.0;
  for (uint e = 0u; e < params.head_dim; ++e) {
    s += query[e] * k_cache_value(k_type, place, params.head_dim, e);
  }
  s *= params.scale;
  return params.softcap != 0.0 ? op_softcap(s, params.softcap) : s;
}

struct Keys {
  uint begin, end, slot, page_offset;
};
Keys visible_keys(Places cache, Step s, uint row) {
  Keys keys = Keys(0u, 0u, 0u, 0u);
  uint position = params.kv_len - params.rows + row, len = params.kv_len;
  if (params.has_step != 0u) {
    uint slot = step_slot_of(row);
    if (slot >= s.n_slots || (cache.n_pages == 0u && slot >= params.slots)) return keys;
    keys.slot = slot;
    keys.page_offset = step_page_offset(s, slot);
    position = step_position(row);
    len = step_kv_length(s, slot);
  }
  len = min(len, places_reach(cache, keys.page_offset));
  keys.end = params.causal != 0u && position < len ? position + 1u : len;
  if (params.window != 0u && position >= params.window) keys.begin = position - params.window + 1u;
  if (params.ring != 0u && len > params.capacity) keys.begin = max(keys.begin, len - params.capacity);
  keys.begin = min(keys.begin, keys.end);
  return keys;
}

void main() {
  uint me = gl_LocalInvocationID.x;
  float lowest = uintBitsToFloat(0xff800000u);
  Places cache =
      Places(params.slots, params.kv_heads, params.capacity, params.ring, count_pages());
  Step s = Step(params.rows, 0u, 0u);
  if (params.has_step != 0u) s = read_step();
  uint all = min(params.rows, s.n_rows) * params.heads;
  for (uint at = gl_WorkGroupID.x; at < all; at += gl_NumWorkGroups.x) {
    uint row = at / params.heads, head = at % params.heads;
    uint kv_head = head / (params.heads / params.kv_heads);
    Keys keys = visible_keys(cache, s, row);
    barrier();
    for (uint e = me; e < params.head_dim; e += threads) {
      query[e] = q_float(at * params.head_dim + e);
    }
    float top = lowest, total = 0.0;
    float acc[most_dim / threads] = float[8](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for (uint first = keys.begin / threads * threads; first < keys.end; first += threads) {
      uint position = first + me, place = no_place;
      if (position >= keys.begin && position < keys.end) {
        place = find_place(cache, keys.slot, keys.page_offset, kv_head, position);
      }
      barrier();
      float mine = place != no_place ? score(place) : lowest;
      float highest = max(top, group_max(mine));
      float base = highest > lowest ? highest : 0.0;
      float weight = place != no_place ? op_exp(mine - base) : 0.0;
      weights[me] = weight;
      places[me] = place;
      float shrink = op_exp(top - base);
      total = total * shrink + group_sum(weight);
      top = highest;
      for (uint j = 0u; j < most_dim / threads; ++j) {
        uint e = me + threads * j;
        if (e >= params.head_dim) break;
        float sum = 0.0;
        for (uint i = 0u; i < threads; ++i) {
          if (places[i] != no_place) {
            sum += weights[i] * v_cache_value(v_type, places[i], params.head_dim, e);
          }
        }
        acc[j] = acc[j] * shrink + sum;
      }
    }
    float factor = 1.0;
    if (is_bound(5u)) {  // one more score, with no value
      float sink = sinks_float(head), highest = max(top, sink);
      float base = highest > lowest ? highest : 0.0;
      factor = op_exp(top - base);
      total = total * factor + op_exp(sink - base);
    }
    for (uint j = 0u; j < most_dim / threads; ++j) {
      uint e = me + threads * j;
      if (e >= params.head_dim) break;
      float y = total == 0.0 ? 0.0 : acc[j] * factor / total;
      result_set_float(at * params.head_dim + e, y);
    }
  }
}
