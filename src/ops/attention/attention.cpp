#include <cmath>

#include "onepass/ops.h"
#include "ops/attention/params.h"
#include "ops/checks.h"

namespace onepass::ops {

void attention(GraphSession& s, const Attention& a, Here here) {
  constexpr std::uint32_t cache_types = types(DType::f32, DType::f16);
  Checks c(s, "attention", here);
  const View q = c.tensor("q", a.q, types(DType::f32));
  const View k = c.tensor("k", a.k, cache_types);
  const View v = c.tensor("v", a.v, cache_types);
  const View out = c.tensor("out", a.out, types(DType::f32));
  c.rank("q", a.q, 3);
  c.rank("k", a.k, 4);
  c.same_shape("q", a.q, "out", a.out);
  c.same_shape("k", a.k, "v", a.v);
  if (c.failed()) return;
  const std::uint32_t rows = a.q.shape[0], heads = a.q.shape[1], head_dim = a.q.shape[2];
  const std::uint32_t slots = a.k.shape[0], kv_heads = a.k.shape[1], capacity = a.k.shape[2];
  c.require(a.k.shape[3] == head_dim, "k is ", a.k.shape, ", q has heads of ", head_dim);
  c.require(heads % kv_heads == 0, "q has ", heads, " heads, expected a multiple of k's ",
            kv_heads);
  c.require(std::isfinite(a.scale), "scale is not finite");
  c.require(a.softcap >= 0.0f && std::isfinite(a.softcap), "softcap is negative or not finite");
  const bool has_step = bool(a.step.buffer);
  View step{};
  if (has_step) {
    step = c.step("step", a.step);
    c.require(a.kv_len == 0, "kv_len is ", a.kv_len, ", with a step it comes from there");
    c.disjoint(out, "step", step);
  } else {
    c.require(a.kv_len >= rows && a.kv_len <= capacity, "kv_len is ", a.kv_len, ", expected ", rows,
              " (rows) to ", capacity, " (capacity)");
  }
  c.disjoint(out, "q", q);
  c.disjoint(out, "k", k);
  c.disjoint(out, "v", v);
  if (c.failed()) return;

  AttentionParams p{};
  p.rows = rows;
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.head_dim = head_dim;
  p.slots = slots;
  p.capacity = capacity;
  p.has_step = has_step ? 1 : 0;
  p.kv_len = a.kv_len;
  p.causal = a.causal ? 1 : 0;
  p.window = a.window;
  p.scale = a.scale != 0.0f ? a.scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
  p.softcap = a.softcap;
  p.v_is_f16 = a.v.dtype == DType::f16 ? 1 : 0;

  Dispatch d = dispatch(Op::attention, a.k.dtype, here);
  d.set_params(p);
  d.bind(q);
  d.bind(k);
  d.bind(v);
  d.bind(step);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
