#include <cmath>

#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/softmax/params.h"

namespace onepass::ops {

void softmax(GraphSession& s, const Softmax& a, Here here) {
  Checks c(s, "softmax", here);
  const View x = c.tensor("x", a.x, row_types);
  const View out = c.tensor("out", a.out, row_types);
  c.same_type("x", a.x, "out", a.out);
  c.same_shape("x", a.x, "out", a.out);
  c.disjoint_or_same(out, "x", x);
  c.require(std::isfinite(a.scale), "scale is not finite");
  const std::uint32_t rows = c.u32("the number of rows", c.failed() ? 0 : a.x.shape.rows());
  View mask{};
  std::uint32_t mask_rows = 0;
  if (a.mask && !c.failed()) {
    mask = c.tensor("mask", a.mask, types(DType::f32, DType::bf16));
    c.require(a.mask.shape.last() == a.x.shape.last(), "mask is ", a.mask.shape, ", x is ",
              a.x.shape);
    mask_rows = c.u32("the number of mask rows", c.failed() ? 1 : a.mask.shape.rows());
    c.require(c.failed() || rows % mask_rows == 0, "x has ", rows,
              " rows, expected a multiple of the mask's ", mask_rows);
    c.disjoint(out, "mask", mask);
  }
  if (c.failed()) return;

  Dispatch d = dispatch(Op::softmax, a.x.dtype, here);
  d.set_params(SoftmaxParams{rows, a.x.shape.last(), a.scale, mask_rows,
                             a.mask.dtype == DType::f32 ? 1u : 0u});
  d.bind(x);
  d.bind(mask);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
