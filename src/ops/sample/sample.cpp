#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/sample/params.h"

namespace onepass::ops {

void argmax(GraphSession& s, const Unary& a, Here here) {
  Checks c(s, "argmax", here);
  const View x = c.tensor("x", a.x, types(DType::f32));
  const View out = c.tensor("out", a.out, types(DType::u32));
  c.require(c.failed() || a.out.shape.elements() == a.x.shape.rows(), "x is ", a.x.shape,
            ", out has ", c.failed() ? 0 : a.out.shape.elements(), " elements");
  c.disjoint(out, "x", x);
  const std::uint32_t rows = c.u32("the number of rows", c.failed() ? 0 : a.x.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(Op::argmax, a.x.dtype, here);
  d.set_params(ArgmaxParams{rows, a.x.shape.last()});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

void step_advance(GraphSession& s, const StepAdvance& a, Here here) {
  Checks c(s, "step_advance", here);
  const View tokens = c.tensor("tokens", a.tokens, types(DType::u32));
  const View step = c.step("step", a.step);
  c.rank("tokens", a.tokens, 1);
  c.require(c.failed() || !overlap(tokens, step), "tokens overlaps step");
  if (c.failed()) return;

  Dispatch d = dispatch(Op::step_advance, DType::u32, here);
  d.set_params(StepAdvanceParams{a.tokens.shape[0]});
  d.bind(tokens);
  d.bind(step);
  s.encode(d);
}

}  // namespace onepass::ops
