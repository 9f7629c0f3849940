#include <cmath>

#include "onepass/ops.h"
#include "ops/attention/params.h"
#include "ops/checks.h"
#include "ops/kv_cache/checks.h"
#include "ops/shared/cache.h"

namespace onepass::ops {
namespace {

constexpr std::uint32_t max_head_dim = 512;

void check_shapes(Checks& c, const Attention& a) noexcept {
  c.rank("q", a.q, 3);
  c.rank("k", a.k, 4);
  c.same_shape("k", a.k, "v", a.v);
  if (c.failed()) return;
  const Shape& q = a.q.shape;
  c.require(q[2] % 8 == 0 && q[2] <= max_head_dim, "q has heads of ", q[2],
            ", expected a multiple of 8 up to ", max_head_dim);
  c.require(a.k.shape[3] == q[2], "k is ", a.k.shape, ", q has heads of ", q[2]);
  c.require(q[1] % a.k.shape[1] == 0, "q has ", q[1], " heads, expected a multiple of k's ",
            a.k.shape[1]);
  if (a.out.dtype == DType::q8a) {
    const std::uint64_t row = std::uint64_t{q[1]} * q[2];
    c.require(a.out.shape.last() == row && a.out.shape.rows() == q[0], "out is ", a.out.shape,
              ", as q8a it is [", q[0], ", ", row, "]");
  } else {
    c.same_shape("q", a.q, "out", a.out);
  }
}

// How many keys there are, and which of them the cache still has.
void check_lengths(Checks& c, const Attention& a, bool paged) noexcept {
  const std::uint32_t rows = a.q.shape[0], capacity = a.k.shape[2];
  if (a.step.buffer) {
    c.require(a.kv_len == 0, "kv_len is ", a.kv_len, ", with a step it comes from there");
  } else {
    const std::uint64_t room = paged    ? a.pages.bytes / 4 * page_positions
                               : a.ring ? ~std::uint32_t{0}
                                        : capacity;
    c.require(a.kv_len >= rows && a.kv_len <= room, "kv_len is ", a.kv_len, ", expected ", rows,
              " (rows) to ", room, paged ? " (pages)" : " (capacity)");
  }
  if (a.ring) {
    c.require(a.causal, "a ring needs causal attention");
    c.require(a.window != 0 && std::uint64_t{a.window} + rows - 1 <= capacity, "window is ",
              a.window, " and there are ", rows, " rows, a ring of ", capacity,
              " needs window + rows - 1 up to that");
  }
}

}  // namespace

void attention(GraphSession& s, const Attention& a, Here here) {
  Checks c(s, "attention", here);
  const View q = c.tensor("q", a.q, types(DType::f32));
  const View k = c.tensor("k", a.k, cache_types);
  const View v = c.tensor("v", a.v, cache_types);
  const View out = c.tensor("out", a.out, types(DType::f32, DType::q8a));
  check_shapes(c, a);
  if (c.failed()) return;
  const std::uint32_t heads = a.q.shape[1], head_dim = a.q.shape[2];
  c.require(std::isfinite(a.scale), "scale is not finite");
  c.require(a.softcap >= 0.0f && std::isfinite(a.softcap), "softcap is negative or not finite");
  const View pages = check_pages(c, a.pages, a.k, a.ring);
  check_lengths(c, a, bool(a.pages.buffer));
  View step{}, sinks{};
  if (a.step.buffer) step = c.step("step", a.step);
  if (a.sinks) {
    sinks = c.tensor("sinks", a.sinks, types(DType::f32));
    c.require(a.sinks.shape.elements() == heads, "sinks has ", a.sinks.shape.elements(),
              " elements, expected one for each of ", heads, " heads");
    c.disjoint(out, "sinks", sinks);
  }
  c.disjoint(out, "step", step);
  c.disjoint(out, "pages", pages);
  c.disjoint(out, "q", q);
  c.disjoint(out, "k", k);
  c.disjoint(out, "v", v);
  if (c.failed()) return;

  AttentionParams p{};
  p.rows = a.q.shape[0];
  p.heads = heads;
  p.kv_heads = a.k.shape[1];
  p.head_dim = head_dim;
  p.slots = a.k.shape[0];
  p.capacity = a.k.shape[2];
  p.ring = a.ring ? 1 : 0;
  p.has_step = a.step.buffer ? 1 : 0;
  p.kv_len = a.kv_len;
  p.causal = a.causal ? 1 : 0;
  p.window = a.window;
  p.scale = a.scale != 0.0f ? a.scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
  p.softcap = a.softcap;
  p.v_type = static_cast<std::uint32_t>(a.v.dtype);

  p.form = a.out.dtype == DType::q8a ? form_quantized : 0;
  Dispatch d = dispatch(Op::attention, a.k.dtype, here);
  d.set_params(p);
  d.bind(q);
  d.bind(k);
  d.bind(v);
  d.bind(step);
  d.bind(pages);
  d.bind(sinks);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
