#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/norm/params.h"

namespace onepass::ops {

void rms_norm(GraphSession& s, const RmsNorm& a, Here here) {
  Checks c(s, "rms_norm", here);
  const View x = c.tensor("x", a.x, row_types);
  const View out = c.tensor("out", a.out, row_types);
  c.same_type("x", a.x, "out", a.out);
  const std::uint32_t dim = a.x.shape.last();
  c.require(a.out.shape.last() == dim && out.bytes == x.bytes, "x is ", a.x.shape, ", out is ",
            a.out.shape);
  c.require(a.eps >= 0.0f, "eps is negative or not a number");
  c.disjoint_or_same(out, "x", x);
  View weight{};
  if (a.weight) {
    weight = c.tensor("weight", a.weight, types(DType::f32, a.x.dtype));
    c.require(a.weight.shape.elements() == dim, "weight has ", a.weight.shape.elements(),
              " elements, x has ", dim, " columns");
    c.disjoint(out, "weight", weight);
  }
  const std::uint32_t rows = c.u32("the number of rows", c.failed() ? 0 : a.x.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(a.weight ? Op::rms_norm : Op::rms_norm_no_scale, a.x.dtype, here);
  d.set_params(RmsNormParams{rows, dim, a.eps, a.weight.dtype == DType::f32 ? 1u : 0u});
  d.bind(x);
  if (a.weight) d.bind(weight);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
