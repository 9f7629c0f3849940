#include "onepass/ops/quantize.h"

#include "ops/checks.h"
#include "ops/quantize/params.h"

namespace onepass::ops {

void quantize(GraphSession& s, const Quantize& a, Here here) {
  Checks c(s, "quantize", here);
  const View x = c.tensor("x", a.x, types(DType::f32));
  const View out = c.tensor("out", a.out, types(DType::q8a));
  c.same_shape("x", a.x, "out", a.out);
  c.disjoint(out, "x", x);
  const std::uint32_t rows = c.u32("the number of rows", c.failed() ? 0 : a.x.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(Op::quantize, a.out.dtype, here);
  d.set_params(QuantizeParams{rows, a.x.shape.last()});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
