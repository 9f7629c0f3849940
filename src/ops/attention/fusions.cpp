#include "ops/quantize/fusions.h"

#include "ops/attention/params.h"
#include "ops/shared/fusions.h"

namespace onepass::ops {

// attention, then quantize of its rows.
bool fuse_attention_quantized(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  auto p = first.params_as<AttentionParams>();
  if (p.form != 0) return false;
  if (!quantizes(second, first.views[6], p.rows, std::uint64_t{p.heads} * p.head_dim)) return false;
  p.form = form_quantized;
  fused.format = first.format;
  fused.set_params(p);
  for (std::size_t i = 0; i < 6; ++i) fused.bind(first.views[i]);
  fused.bind(second.views[1]);
  return true;
}

// rope_store, then attention of its queries over the caches it wrote, with quantized output.
bool fuse_rope_attention(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto r = first.params_as<RopeStoreParams>();
  const auto a = second.params_as<AttentionParams>();
  if (a.form != form_quantized || r.rows != a.rows || a.has_step == 0) return false;
  if (r.k_type != static_cast<std::uint32_t>(second.format.type) || r.v_type != a.v_type ||
      r.head_dim != a.head_dim || r.heads != a.heads || r.kv_heads != a.kv_heads ||
      r.slots != a.slots || r.capacity != a.capacity || r.ring != a.ring) {
    return false;
  }
  const auto& x = first.views;
  const auto& y = second.views;
  if (x[2].bytes == 0 || x[4].bytes == 0) return false;
  if (y[0] != x[8] || y[1] != x[9] || y[2] != x[10] || y[3] != x[5]) return false;
  if (x[7].bytes != y[4].bytes || (x[7].bytes != 0 && x[7] != y[4])) return false;
  fused.format = second.format;
  fused.set_params(RopeAttentionParams{r, a.causal, a.window, a.scale, a.softcap});
  for (std::size_t i = 0; i < 8; ++i) fused.bind(x[i]);
  fused.bind(y[5]);
  fused.bind(y[6]);
  fused.bind(x[9]);
  fused.bind(x[10]);
  return true;
}

}  // namespace onepass::ops
