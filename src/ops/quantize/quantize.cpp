#include "onepass/ops/quantize.h"

#include "ops/checks.h"
#include "ops/quantize/params.h"

namespace onepass::ops {

void quantize(GraphSession& s, const Quantize& a, Here here) {
  Checks c(s, "quantize", here);
  const View x = c.tensor("x", a.x, types(DType::f32));
  const View out = c.tensor("out", a.out, types(DType::q8a) | block_types);
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

void dequantize(GraphSession& s, const Unary& a, Here here) {
  Checks c(s, "dequantize", here);
  const View x = c.tensor("x", a.x, types(DType::q8a) | block_types | packed_types);
  const View out = c.tensor("out", a.out, types(DType::f32));
  c.same_shape("x", a.x, "out", a.out);
  c.require(c.failed() || !is_packed(a.x.format()) || a.x.shape.rank <= 2, "x is ", a.x.shape,
            " of ", name(a.x.format()), ", expected one matrix");
  c.disjoint(out, "x", x);
  const std::uint32_t rows = c.u32("the number of rows", c.failed() ? 0 : a.x.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(Op::dequantize, a.x.format(), here);
  d.set_params(QuantizeParams{rows, a.x.shape.last()});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
