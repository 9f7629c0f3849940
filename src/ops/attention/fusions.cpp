#include "ops/attention/fusions.h"

#include "ops/attention/params.h"
#include "ops/quantize/params.h"

namespace onepass::ops {

bool fuse_attention_q(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto p = first.params_as<AttentionParams>();
  const auto q = second.params_as<QuantizeParams>();
  if (second.format != DType::q8a || q.rows != p.rows) return false;
  if (q.cols != std::uint64_t{p.heads} * p.head_dim) return false;
  fused.format = first.format;
  fused.set_params(p);
  for (std::size_t i = 0; i < 6; ++i) fused.bind(first.views[i]);
  fused.bind(second.views[1]);
  return true;
}

bool fuse_rope_attention(const Dispatch& first, const Dispatch& second, Dispatch& fused) {
  const auto r = first.params_as<RopeStoreParams>();
  const auto a = second.params_as<AttentionParams>();
  const auto half = static_cast<std::uint32_t>(DType::f16);
  if (r.rows != 1 || a.rows != 1 || a.has_step == 0) return false;
  if (r.k_type != half || r.v_type != half || second.format != DType::f16 || a.v_type != half) {
    return false;
  }
  if ((r.head_dim != 64 && r.head_dim != 128) || 2 * r.angles.pairs != r.head_dim) return false;
  if (r.heads > r.kv_heads * 8) return false;
  if (r.head_dim != a.head_dim || r.heads != a.heads || r.kv_heads != a.kv_heads ||
      r.slots != a.slots || r.capacity != a.capacity || r.ring != a.ring) {
    return false;
  }
  const auto& x = first.views;
  const auto& y = second.views;
  if (x[2].bytes == 0 || x[4].bytes == 0) return false;
  if (x[9].offset % 16 != 0 || x[10].offset % 16 != 0) return false;
  if (std::uint64_t{r.slots} * r.kv_heads * r.capacity >= ~0u) return false;
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
