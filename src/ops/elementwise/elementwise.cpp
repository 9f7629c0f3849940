#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/elementwise/params.h"

namespace onepass::ops {
namespace {

ElementwiseParams count(std::uint64_t n, float scalar, std::uint32_t b_elements) noexcept {
  return {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), scalar, b_elements};
}

void binary(GraphSession& s, Op op, const Binary& t, bool rows_allowed, Here here) {
  Checks c(s, info(op).name, here);
  const View a = c.tensor("a", t.a, row_types);
  const View b = c.tensor("b", t.b, row_types);
  const View out = c.tensor("out", t.out, row_types);
  c.same_type("a", t.a, "b", t.b);
  c.same_type("a", t.a, "out", t.out);
  const bool row = rows_allowed && t.b.shape.rank == 1 && t.a.shape.rank > 1 &&
                   t.b.shape.last() == t.a.shape.last();
  if (!row) c.same_shape("a", t.a, "b", t.b);
  c.same_shape("a", t.a, "out", t.out);
  c.disjoint_or_same(out, "a", a);
  if (row) {
    c.disjoint(out, "b", b);
  } else {
    c.disjoint_or_same(out, "b", b);
  }
  if (c.failed()) return;

  Dispatch d = dispatch(op, t.a.dtype, here);
  d.set_params(count(t.a.shape.elements(), 0.0f, row ? t.b.shape.last() : 0));
  d.bind(a);
  d.bind(b);
  d.bind(out);
  s.encode(d);
}

void gated(GraphSession& s, Op op, const Binary& t, Here here) { binary(s, op, t, false, here); }

void unary(GraphSession& s, Op op, const Unary& t, float scalar, Checks& c, Here here) {
  const View x = c.tensor("x", t.x, row_types);
  const View out = c.tensor("out", t.out, row_types);
  c.same_type("x", t.x, "out", t.out);
  c.same_shape("x", t.x, "out", t.out);
  c.disjoint_or_same(out, "x", x);
  if (c.failed()) return;

  Dispatch d = dispatch(op, t.x.dtype, here);
  d.set_params(count(t.x.shape.elements(), scalar, 0));
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

void unary(GraphSession& s, Op op, const Unary& t, Here here) {
  Checks c(s, info(op).name, here);
  unary(s, op, t, 0.0f, c, here);
}

}  // namespace

void add(GraphSession& s, const Binary& a, Here here) { binary(s, Op::add, a, true, here); }
void mul(GraphSession& s, const Binary& a, Here here) { binary(s, Op::mul, a, true, here); }
void silu_mul(GraphSession& s, const Binary& a, Here here) { gated(s, Op::silu_mul, a, here); }
void gelu_mul(GraphSession& s, const Binary& a, Here here) { gated(s, Op::gelu_mul, a, here); }
void gelu_erf_mul(GraphSession& s, const Binary& a, Here here) {
  gated(s, Op::gelu_erf_mul, a, here);
}
void sigmoid_mul(GraphSession& s, const Binary& a, Here here) {
  gated(s, Op::sigmoid_mul, a, here);
}

void silu(GraphSession& s, const Unary& a, Here here) { unary(s, Op::silu, a, here); }
void gelu(GraphSession& s, const Unary& a, Here here) { unary(s, Op::gelu, a, here); }
void gelu_erf(GraphSession& s, const Unary& a, Here here) { unary(s, Op::gelu_erf, a, here); }
void relu2(GraphSession& s, const Unary& a, Here here) { unary(s, Op::relu2, a, here); }
void sigmoid(GraphSession& s, const Unary& a, Here here) { unary(s, Op::sigmoid, a, here); }

void softcap(GraphSession& s, const Softcap& a, Here here) {
  Checks c(s, "softcap", here);
  c.require(a.cap > 0.0f && std::isfinite(a.cap), "cap must be positive and finite");
  unary(s, Op::softcap, {a.x, a.out}, a.cap, c, here);
}

void scale(GraphSession& s, const Scale& a, Here here) {
  Checks c(s, "scale", here);
  c.require(std::isfinite(a.factor), "factor must be finite");
  unary(s, Op::scale, {a.x, a.out}, a.factor, c, here);
}

void cast(GraphSession& s, const Unary& a, Here here) {
  Checks c(s, "cast", here);
  const View x = c.tensor("x", a.x, row_types);
  const View out = c.tensor("out", a.out, row_types);
  c.same_shape("x", a.x, "out", a.out);
  c.disjoint(out, "x", x);
  if (c.failed()) return;

  const std::uint64_t n = a.x.shape.elements();
  Dispatch d = dispatch(Op::cast, a.x.dtype, here);
  d.set_params(CastParams{static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32),
                          static_cast<std::uint32_t>(a.out.dtype)});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
