#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/matmul/params.h"

namespace onepass::ops {
namespace {

constexpr TypeSet matmul_types = row_types | block_types | packed_types;
constexpr TypeSet x_types = types(DType::f32, DType::q8a);

MatmulParams product(std::uint32_t m, std::uint32_t n, std::uint32_t k) noexcept {
  MatmulParams p{};
  p.m = m;
  p.k = k;
  p.n0 = n;
  return p;
}

// The slots of forms in front of slot `end`.
void bind_empty(Dispatch& d, std::uint32_t end) noexcept {
  while (d.n_views < end) d.bind(View{});
}

}  // namespace

void matmul(GraphSession& s, const Matmul& a, Here here) {
  Checks c(s, "matmul", here);
  const View x = c.tensor("x", a.x, x_types);
  const View weight = c.tensor("weight", a.weight, matmul_types);
  const View out = c.tensor("out", a.out, types(DType::f32));
  c.rank("weight", a.weight, 2);
  const std::uint32_t n = a.weight.shape[0], k = a.weight.shape[1];
  c.require(a.x.shape.last() == k, "weight is ", a.weight.shape, ", x has ", a.x.shape.last(),
            " columns");
  c.require(a.out.shape.last() == n, "weight is ", a.weight.shape, ", out has ", a.out.shape.last(),
            " columns");
  c.require(c.failed() || a.x.shape.rows() == a.out.shape.rows(), "x is ", a.x.shape, ", out is ",
            a.out.shape);
  c.disjoint(out, "x", x);
  c.disjoint(out, "weight", weight);
  const std::uint32_t m = c.u32("the number of rows", c.failed() ? 0 : a.x.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(Op::matmul, a.weight.format(), here);
  d.input = a.x.dtype;
  d.set_params(product(m, n, k));
  d.bind(x);
  d.bind(weight);
  d.bind(out);
  s.encode(d);
}

void matmul_affine(GraphSession& s, const MatmulAffine& a, Here here) {
  Checks c(s, "matmul_affine", here);
  const Checks::Affine weights{a.weight, a.scales, a.biases, a.bits, a.group_size};
  const View x = c.tensor("x", a.x, types(DType::f32));
  const auto [weight, scales, biases] = c.affine(weights);
  const View out = c.tensor("out", a.out, types(DType::f32));
  if (c.failed()) return;
  const std::uint32_t n = a.weight.shape[0], k = a.x.shape.last();
  c.affine_rows(weights, "x", k);
  c.require(a.out.shape.last() == n && a.out.shape.rows() == a.x.shape.rows(), "x is ", a.x.shape,
            ", weight has ", n, " rows, out is ", a.out.shape);
  c.disjoint(out, "x", x);
  c.disjoint(out, "weight", weight);
  c.disjoint(out, "scales", scales);
  c.disjoint(out, "biases", biases);
  const std::uint32_t m = c.u32("the number of rows", a.x.shape.rows());
  if (c.failed()) return;

  Dispatch d = dispatch(Op::matmul_affine, a.scales.dtype, here);
  d.set_params(MatmulAffineParams{product(m, n, k), a.bits, a.group_size});
  d.bind(x);
  d.bind(weight);
  d.bind(out);
  bind_empty(d, matmul_scales);
  d.bind(scales);
  d.bind(biases);
  s.encode(d);
}

void matmul_id(GraphSession& s, const MatmulId& a, Here here) {
  Checks c(s, "matmul_id", here);
  const View x = c.tensor("x", a.x, x_types);
  const View weight = c.tensor("weight", a.weight, matmul_types);
  const View ids = c.tensor("ids", a.ids, types(DType::u32));
  const View out = c.tensor("out", a.out, types(DType::f32));
  c.require(a.x.shape.rank == 2 || a.x.shape.rank == 3, "x has ", a.x.shape.rank,
            " dimensions, expected 2 or 3");
  c.rank("weight", a.weight, 3);
  c.rank("ids", a.ids, 2);
  c.rank("out", a.out, 3);
  if (c.failed()) return;
  const std::uint32_t tokens = a.x.shape[0], k = a.x.shape.last(), used = a.ids.shape[1];
  const bool pair_rows = a.x.shape.rank == 3;
  const std::uint32_t experts = a.weight.shape[0], n = a.weight.shape[1];
  c.require(a.weight.shape[2] == k, "weight is ", a.weight.shape, ", x has ", k, " columns");
  c.require(a.ids.shape[0] == tokens, "ids is ", a.ids.shape, ", x has ", tokens, " rows");
  c.require(!pair_rows || a.x.shape[1] == used, "x is ", a.x.shape, ", ids is ", a.ids.shape);
  c.require(a.out.shape == Shape{tokens, used, n}, "out is ", a.out.shape, ", expected ",
            Shape{tokens, used, n});
  c.disjoint(out, "x", x);
  c.disjoint(out, "weight", weight);
  c.disjoint(out, "ids", ids);
  const std::uint32_t pairs = c.u32("the number of pairs", std::uint64_t{tokens} * used);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::matmul_id, a.weight.format(), here);
  d.input = a.x.dtype;
  d.set_params(MatmulIdParams{product(pairs, n, k), used, experts, pair_rows ? 1u : 0u, 0, 0});
  d.bind(x);
  d.bind(weight);
  d.bind(out);
  bind_empty(d, matmul_ids);
  d.bind(ids);
  s.encode(d);
}

}  // namespace onepass::ops
