#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/elementwise/params.h"

namespace onepass::ops {
namespace {

constexpr TypeSet any_type = (TypeSet{1} << static_cast<unsigned>(DType::count_)) - 1;

ElementwiseParams count(std::uint64_t n, float cap = 0.0f) noexcept {
  return {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), cap};
}

void binary(GraphSession& s, Op op, const Binary& t, Here here) {
  Checks c(s, info(op).name, here);
  const View a = c.tensor("a", t.a, row_types);
  const View b = c.tensor("b", t.b, row_types);
  const View out = c.tensor("out", t.out, row_types);
  c.same_type("a", t.a, "b", t.b);
  c.same_type("a", t.a, "out", t.out);
  c.same_shape("a", t.a, "b", t.b);
  c.same_shape("a", t.a, "out", t.out);
  c.disjoint_or_same(out, "a", a);
  c.disjoint_or_same(out, "b", b);
  if (c.failed()) return;

  Dispatch d = dispatch(op, t.a.dtype, here);
  d.set_params(count(t.a.shape.elements()));
  d.bind(a);
  d.bind(b);
  d.bind(out);
  s.encode(d);
}

void unary(GraphSession& s, Op op, const Unary& t, float cap, Checks& c, Here here) {
  const View x = c.tensor("x", t.x, row_types);
  const View out = c.tensor("out", t.out, row_types);
  c.same_type("x", t.x, "out", t.out);
  c.same_shape("x", t.x, "out", t.out);
  c.disjoint_or_same(out, "x", x);
  if (c.failed()) return;

  Dispatch d = dispatch(op, t.x.dtype, here);
  d.set_params(count(t.x.shape.elements(), cap));
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

}  // namespace

void add(GraphSession& s, const Binary& a, Here here) { binary(s, Op::add, a, here); }
void mul(GraphSession& s, const Binary& a, Here here) { binary(s, Op::mul, a, here); }
void silu_mul(GraphSession& s, const Binary& a, Here here) { binary(s, Op::silu_mul, a, here); }

void gelu(GraphSession& s, const Unary& a, Here here) {
  Checks c(s, "gelu", here);
  unary(s, Op::gelu, a, 0.0f, c, here);
}

void softcap(GraphSession& s, const Softcap& a, Here here) {
  Checks c(s, "softcap", here);
  c.require(a.cap > 0.0f && std::isfinite(a.cap), "cap must be positive and finite");
  unary(s, Op::softcap, {a.x, a.out}, a.cap, c, here);
}

void copy(GraphSession& s, const Unary& a, Here here) {
  Checks c(s, "copy", here);
  const View x = c.tensor("x", a.x, any_type);
  const View out = c.tensor("out", a.out, any_type);
  c.same_type("x", a.x, "out", a.out);
  c.require(x.bytes == out.bytes, "x is ", a.x.shape, ", out is ", a.out.shape);
  c.disjoint(out, "x", x);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::copy, a.x.dtype, here);
  d.set_params(
      CopyParams{static_cast<std::uint32_t>(x.bytes), static_cast<std::uint32_t>(x.bytes >> 32)});
  d.bind(x);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
