// All of these fusions make a rope_store. Positions come from a StepState, values are f32.
#include "ops/shared/fusions.h"

#include <cstring>
#include <optional>

#include "ops/kv_cache/params.h"
#include "ops/launch.h"
#include "ops/norm/params.h"
#include "ops/rope/params.h"

namespace onepass::ops {
namespace {

enum Slot : std::size_t {
  q,
  q_norm,
  k,
  k_norm,
  v,
  step,
  factors,
  pages,
  q_out,
  k_cache,
  v_cache,
  n_slots
};

// A rope_store that is being put together.
struct Store {
  RopeStoreParams params{};
  View views[n_slots]{};

  bool has(Slot s) const { return views[s].bytes != 0; }
  Format format() const {
    return has(k_cache)   ? static_cast<DType>(params.k_type)
           : has(v_cache) ? static_cast<DType>(params.v_type)
                          : DType::f32;
  }
  bool write_to(Dispatch& d) const {
    d.format = format();
    d.set_params(params);
    for (const View& view : views) d.bind(view);
    return true;
  }
};

std::optional<Store> of_rope(const Dispatch& d) {
  const auto p = d.params_as<RopeParams>();
  if (d.format != DType::f32 || p.positions_are_u32 != 0) return std::nullopt;
  Store s;
  s.params.rows = p.rows;
  s.params.heads = p.heads;
  s.params.head_dim = p.head_dim;
  s.params.angles = p.angles;
  s.views[q] = d.views[0];
  s.views[step] = d.views[1];
  s.views[factors] = d.views[2];
  s.views[q_out] = d.views[3];
  return s;
}

Store of_rope_store(const Dispatch& d) {
  Store s;
  s.params = d.params_as<RopeStoreParams>();
  for (std::size_t i = 0; i < n_slots; ++i) s.views[i] = d.views[i];
  return s;
}

// What a kv_store says about its cache.
struct Cache {
  KvStoreParams params;
  View x, step, pages, cache;
  DType type;
};
Cache of_kv_store(const Dispatch& d) {
  return {
      d.params_as<KvStoreParams>(), d.views[0], d.views[1], d.views[2], d.views[3], d.format.type};
}

bool same_place(const Store& s, const Cache& c) {
  return s.params.rows == c.params.rows && s.params.head_dim == c.params.head_dim &&
         s.views[step] == c.step;
}

bool same_cache(const Store& s, const Cache& c) {
  return s.params.kv_heads == c.params.kv_heads && s.params.slots == c.params.slots &&
         s.params.capacity == c.params.capacity && s.params.ring == c.params.ring &&
         s.views[pages] == c.pages;
}

void set_cache(Store& s, const Cache& c) {
  s.params.kv_heads = c.params.kv_heads;
  s.params.slots = c.params.slots;
  s.params.capacity = c.params.capacity;
  s.params.ring = c.params.ring;
  s.views[pages] = c.pages;
}

bool queries_to_keys(Store s, const Dispatch& second, Dispatch& fused) {
  const Cache c = of_kv_store(second);
  if (s.has(k) || s.has(v) || s.params.heads != c.params.kv_heads || !same_place(s, c) ||
      s.views[q_out] != c.x) {
    return false;
  }
  set_cache(s, c);
  s.views[k] = s.views[q];
  s.views[k_norm] = s.views[q_norm];
  s.params.k_eps = s.params.q_eps;
  s.params.k_type = static_cast<std::uint32_t>(c.type);
  s.views[k_cache] = c.cache;
  s.views[q] = s.views[q_norm] = s.views[q_out] = View{};
  s.params.heads = 0;
  s.params.q_eps = 0.0f;
  return s.write_to(fused);
}

}  // namespace

// rms_norm of heads, then rope.
bool fuse_norm_rope(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto norm = first.params_as<RmsNormParams>();
  std::optional<Store> s = of_rope(second);
  if (!s || first.format != DType::f32 || norm.form != 0) return false;
  if (norm.weight_is_f32 == 0 || first.views[norm_weight_slot].bytes == 0) return false;
  if (second.views[0] != first.views[norm_out] || norm.dim != s->params.head_dim ||
      norm.rows != product({s->params.rows, s->params.heads})) {
    return false;
  }
  s->views[q] = first.views[norm_x];
  s->views[q_norm] = first.views[norm_weight_slot];
  s->params.q_eps = norm.eps;
  return s->write_to(fused);
}

// rope, or rope_store of queries alone, whose result is stored in a cache: these were keys.
bool fuse_rope_kv_store(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const std::optional<Store> s = of_rope(first);
  return s && queries_to_keys(*s, second, fused);
}

bool fuse_rope_store_kv_store(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  return queries_to_keys(of_rope_store(first), second, fused);
}

// Queries and keys that rotate alike.
bool fuse_rope_pair(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const std::optional<Store> a =
      first.op == Op::rope ? of_rope(first) : std::optional(of_rope_store(first));
  Store b = of_rope_store(second);
  if (!a || !a->has(q) || a->has(k) || a->has(v) || b.has(q) || !b.has(k)) return false;
  if (a->params.rows != b.params.rows || a->params.head_dim != b.params.head_dim ||
      a->views[step] != b.views[step] || a->views[factors] != b.views[factors] ||
      std::memcmp(&a->params.angles, &b.params.angles, sizeof(RopeAngles)) != 0) {
    return false;
  }
  b.params.heads = a->params.heads;
  b.params.q_eps = a->params.q_eps;
  b.views[q] = a->views[q];
  b.views[q_norm] = a->views[q_norm];
  b.views[q_out] = a->views[q_out];
  return b.write_to(fused);
}

// Keys and the store of their values.
bool fuse_rope_store_values(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  Store s = of_rope_store(first);
  const Cache c = of_kv_store(second);
  if (!s.has(k) || s.has(v) || !same_place(s, c) || !same_cache(s, c)) return false;
  s.views[v] = c.x;
  s.views[v_cache] = c.cache;
  s.params.v_type = static_cast<std::uint32_t>(c.type);
  return s.write_to(fused);
}

}  // namespace onepass::ops
