#include <cmath>

#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/rope/params.h"

namespace onepass::ops {

void rope(GraphSession& s, const Rope& a, Here here) {
  Checks c(s, "rope", here);
  const View x = c.tensor("x", a.x, row_types);
  const View out = c.tensor("out", a.out, row_types);
  c.rank("x", a.x, 3);
  c.same_type("x", a.x, "out", a.out);
  c.same_shape("x", a.x, "out", a.out);
  const std::uint32_t rows = a.x.shape[0], heads = a.x.shape[1], head_dim = a.x.shape[2];
  const std::uint32_t rope_dim = a.rope_dim == 0 ? head_dim : a.rope_dim;
  const bool full = a.mode == RopeMode::neox_full;
  c.require(rope_dim % 2 == 0 && rope_dim <= head_dim, "rope_dim is ", rope_dim,
            ", expected an even number up to head_dim ", head_dim);
  c.require(!full || head_dim % 2 == 0, "head_dim is ", head_dim, ", neox_full needs an even one");
  c.require(a.theta >= 1.0f && std::isfinite(a.theta), "theta must be finite and at least 1");
  const View positions = a.positions_are_u32
                             ? c.memory("positions", a.positions, std::uint64_t{rows} * 4)
                             : c.step("positions", a.positions);
  View factors{};
  if (a.freq_factors) {
    factors = c.tensor("freq_factors", a.freq_factors, types(DType::f32));
    c.require(a.freq_factors.shape.elements() == rope_dim / 2, "freq_factors has ",
              a.freq_factors.shape.elements(), " elements, expected ", rope_dim / 2);
    c.disjoint(out, "freq_factors", factors);
  }
  c.disjoint(out, "positions", positions);
  c.disjoint_or_same(out, "x", x);
  if (c.failed()) return;

  const double dim = full ? head_dim : rope_dim;
  const double ratio = std::pow(static_cast<double>(a.theta), -2.0 / dim);
  RopeParams p{};
  p.rows = rows;
  p.heads = heads;
  p.head_dim = head_dim;
  p.pairs = rope_dim / 2;
  p.step = a.mode == RopeMode::interleaved ? 2 : 1;
  p.distance = a.mode == RopeMode::interleaved ? 1 : full ? head_dim / 2 : rope_dim / 2;
  p.positions_are_u32 = a.positions_are_u32 ? 1 : 0;
  p.has_factors = a.freq_factors ? 1 : 0;
  p.ratio_hi = static_cast<float>(ratio);
  p.ratio_lo = static_cast<float>(ratio - static_cast<double>(p.ratio_hi));

  Dispatch d = dispatch(Op::rope, a.x.dtype, here);
  d.set_params(p);
  d.bind(x);
  d.bind(positions);
  d.bind(factors);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
