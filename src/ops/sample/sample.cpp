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

void argsort(GraphSession& s, const Unary& a, Here here) {
  Checks c(s, "argsort", here);
  const View x = c.tensor("x", a.x, types(DType::f32));
  const View out = c.tensor("out", a.out, types(DType::u32));
  c.same_shape("x", a.x, "out", a.out);
  c.disjoint(out, "x", x);
  const std::uint32_t rows = c.u32("the number of rows", c.failed() ? 0 : a.x.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(Op::argsort, a.x.dtype, here);
  d.set_params(ArgmaxParams{rows, a.x.shape.last()});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

void top_k(GraphSession& s, const TopK& a, Here here) {
  Checks c(s, "top_k", here);
  const View x = c.tensor("x", a.x, types(DType::f32));
  const View values = c.tensor("values", a.values, types(DType::f32));
  const View ids = c.tensor("ids", a.ids, types(DType::u32));
  c.same_shape("values", a.values, "ids", a.ids);
  c.require(c.failed() || a.x.shape.rows() == a.values.shape.rows(), "x is ", a.x.shape,
            ", values is ", a.values.shape);
  c.require(c.failed() || a.values.shape.last() <= a.x.shape.last(), "values has ",
            a.values.shape.last(), " columns, x has ", a.x.shape.last());
  c.require(c.failed() || !overlap(values, x), "values overlaps x");
  c.require(c.failed() || !overlap(ids, x), "ids overlaps x");
  c.require(c.failed() || !overlap(ids, values), "ids overlaps values");
  const std::uint32_t rows = c.u32("the number of rows", c.failed() ? 0 : a.x.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(Op::top_k, a.x.dtype, here);
  d.set_params(TopKParams{rows, a.x.shape.last(), a.values.shape.last()});
  d.bind(x);
  d.bind(values);
  d.bind(ids);
  s.encode(d);
}

void sample(GraphSession& s, const Sample& a, Here here) {
  Checks c(s, "sample", here);
  const View logits = c.tensor("logits", a.logits, types(DType::f32));
  const View out = c.tensor("out", a.out, types(DType::u32));
  const View step = c.step("step", a.step);
  c.require(c.failed() || a.out.shape.elements() == a.logits.shape.rows(), "logits is ",
            a.logits.shape, ", out has ", c.failed() ? 0 : a.out.shape.elements(), " elements");
  c.require(a.temperature >= 0.0f && std::isfinite(a.temperature),
            "temperature must be finite and not negative");
  c.require(a.top_p > 0.0f && a.top_p <= 1.0f, "top_p must be above 0 and at most 1");
  c.require(a.min_p >= 0.0f && a.min_p <= 1.0f, "min_p must be between 0 and 1");
  c.disjoint(out, "logits", logits);
  c.disjoint(out, "step", step);
  const std::uint32_t rows = c.u32("the number of rows", c.failed() ? 0 : a.logits.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(Op::sample, a.logits.dtype, here);
  d.set_params(SampleParams{rows, a.logits.shape.last(), a.top_k, a.temperature, a.top_p, a.min_p});
  d.bind(logits);
  d.bind(step);
  d.bind(out);
  s.encode(d);
}

void step_advance(GraphSession& s, const StepAdvance& a, Here here) {
  Checks c(s, "step_advance", here);
  const View tokens = c.tensor("tokens", a.tokens, types(DType::u32));
  const View step = c.step("step", a.step);
  c.rank("tokens", a.tokens, 1);
  c.require(c.failed() || !overlap(tokens, step), "tokens overlaps step");
  View history;
  if (a.history) {
    history = c.tensor("history", a.history, types(DType::u32));
    c.rank("history", a.history, 2);
    c.require(c.failed() || a.history.shape[0] == a.tokens.shape[0],
              "history has another number of rows than tokens");
    c.require(c.failed() || (!overlap(history, tokens) && !overlap(history, step)),
              "history overlaps tokens or step");
  }
  if (c.failed()) return;

  Dispatch d = dispatch(Op::step_advance, DType::u32, here);
  d.set_params(StepAdvanceParams{a.tokens.shape[0], a.history ? a.history.shape[1] : 0u});
  d.bind(tokens);
  d.bind(step);
  d.bind(history);
  s.encode(d);
}

}  // namespace onepass::ops
