#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/softmax/params.h"

namespace onepass::ops {

void softmax(GraphSession& s, const Unary& a, Here here) {
  Checks c(s, "softmax", here);
  const View x = c.tensor("x", a.x, row_types);
  const View out = c.tensor("out", a.out, row_types);
  c.same_type("x", a.x, "out", a.out);
  c.same_shape("x", a.x, "out", a.out);
  c.disjoint_or_same(out, "x", x);
  const std::uint32_t rows = c.u32("the number of rows", c.failed() ? 0 : a.x.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(Op::softmax, a.x.dtype, here);
  d.set_params(SoftmaxParams{rows, a.x.shape.last()});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
