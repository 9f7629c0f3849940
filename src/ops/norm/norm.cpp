#include <cmath>

#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/norm/params.h"

namespace onepass::ops {
namespace {

struct Rows {
  View x, out;
  std::uint32_t rows = 0, dim = 0;
};

// x and an output of its type and number of elements.
Rows check_rows(Checks& c, const Tensor& x, const Tensor& out, float eps) noexcept {
  Rows r;
  r.x = c.tensor("x", x, row_types);
  r.out = c.tensor("out", out, row_types);
  c.same_type("x", x, "out", out);
  r.dim = x.shape.last();
  c.require(out.shape.last() == r.dim && r.out.bytes == r.x.bytes, "x is ", x.shape, ", out is ",
            out.shape);
  c.require(eps >= 0.0f && std::isfinite(eps), "eps is negative or not a number");
  c.disjoint_or_same(r.out, "x", r.x);
  r.rows = c.u32("the number of rows", c.failed() ? 0 : x.shape.rows());
  return r;
}

// A weight or bias [dim], or none.
View check_weight(Checks& c, const char* what, const Tensor& weight, const Tensor& x,
                  const View& out) noexcept {
  if (!weight) return {};
  const View view = c.tensor(what, weight, types(DType::f32, x.dtype));
  c.require(weight.shape.elements() == x.shape.last(), what, " has ", weight.shape.elements(),
            " elements, x has ", x.shape.last(), " columns");
  c.disjoint(out, what, view);
  return view;
}

// A second tensor like x.
View check_like_x(Checks& c, const char* what, const Tensor& t, const Tensor& x,
                  const View& x_view) noexcept {
  const View view = c.tensor(what, t, row_types);
  c.same_type("x", x, what, t);
  c.require(c.failed() || (t.shape.last() == x.shape.last() && view.bytes == x_view.bytes), "x is ",
            x.shape, ", ", what, " is ", t.shape);
  return view;
}

std::uint32_t is_f32(const Tensor& weight) noexcept { return weight.dtype == DType::f32 ? 1 : 0; }

}  // namespace

void rms_norm(GraphSession& s, const RmsNorm& a, Here here) {
  Checks c(s, "rms_norm", here);
  const Rows r = check_rows(c, a.x, a.out, a.eps);
  const View weight = check_weight(c, "weight", a.weight, a.x, r.out);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::rms_norm, a.x.dtype, here);
  d.set_params(RmsNormParams{0, r.rows, r.dim, a.eps, is_f32(a.weight)});
  d.bind(r.x);
  d.bind(weight);
  d.bind(r.out);
  s.encode(d);
}

void l2_norm(GraphSession& s, const L2Norm& a, Here here) {
  Checks c(s, "l2_norm", here);
  const Rows r = check_rows(c, a.x, a.out, a.eps);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::l2_norm, a.x.dtype, here);
  d.set_params(L2NormParams{r.rows, r.dim, a.eps});
  d.bind(r.x);
  d.bind(r.out);
  s.encode(d);
}

void layer_norm(GraphSession& s, const LayerNorm& a, Here here) {
  Checks c(s, "layer_norm", here);
  const Rows r = check_rows(c, a.x, a.out, a.eps);
  const View weight = check_weight(c, "weight", a.weight, a.x, r.out);
  const View bias = check_weight(c, "bias", a.bias, a.x, r.out);
  if (a.weight && a.bias) c.same_type("weight", a.weight, "bias", a.bias);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::layer_norm, a.x.dtype, here);
  d.set_params(LayerNormParams{r.rows, r.dim, a.eps, is_f32(a.weight ? a.weight : a.bias)});
  d.bind(r.x);
  d.bind(weight);
  d.bind(bias);
  d.bind(r.out);
  s.encode(d);
}

void add_rms_norm(GraphSession& s, const AddRmsNorm& a, Here here) {
  Checks c(s, "add_rms_norm", here);
  const Rows r = check_rows(c, a.x, a.out, a.eps);
  const View residual = check_like_x(c, "residual", a.residual, a.x, r.x);
  const View sum = check_like_x(c, "sum", a.sum, a.x, r.x);
  const View weight = check_weight(c, "weight", a.weight, a.x, r.out);
  c.disjoint_or_same(r.out, "residual", residual);
  c.disjoint(r.out, "sum", sum);
  for (const View& in : {r.x, residual}) {
    c.require(c.failed() || sum == in || !overlap(sum, in),
              "sum overlaps an input without being the same memory");
  }
  c.require(c.failed() || !overlap(sum, weight), "sum overlaps weight");
  if (c.failed()) return;

  Dispatch d = dispatch(Op::rms_norm, a.x.dtype, here);
  d.set_params(RmsNormParams{form_sum, r.rows, r.dim, a.eps, is_f32(a.weight)});
  d.bind(r.x);
  d.bind(weight);
  d.bind(r.out);
  d.bind(residual);
  d.bind(sum);
  s.encode(d);
}

void norm_add(GraphSession& s, const NormAdd& a, Here here) {
  Checks c(s, "norm_add", here);
  const Rows r = check_rows(c, a.x, a.out, a.eps);
  const View residual = check_like_x(c, "residual", a.residual, a.x, r.x);
  const View weight = check_weight(c, "weight", a.weight, a.x, r.out);
  c.disjoint_or_same(r.out, "residual", residual);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::rms_norm, a.x.dtype, here);
  d.set_params(RmsNormParams{form_residual, r.rows, r.dim, a.eps, is_f32(a.weight)});
  d.bind(r.x);
  d.bind(weight);
  d.bind(r.out);
  d.bind(residual);
  s.encode(d);
}

}  // namespace onepass::ops
