#include "onepass/ops.h"
#include "ops/checks.h"
#include "ops/moe/kernels.h"
#include "ops/moe/params.h"

namespace onepass::ops {
namespace {

// An f32 tensor of this shape; an empty view where it is missing.
View optional(Checks& c, const char* what, const Tensor& t, const Shape& shape) noexcept {
  if (!t) return {};
  const View view = c.tensor(what, t, types(DType::f32));
  c.require(c.failed() || t.shape == shape, what, " is ", t.shape, ", expected ", shape);
  return view;
}

}  // namespace

void moe_gate(GraphSession& s, const MoeGate& a, Here here) {
  Checks c(s, "moe_gate", here);
  const View logits = c.tensor("logits", a.logits, types(DType::f32));
  const View ids = c.tensor("ids", a.ids, types(DType::u32));
  const View weights = c.tensor("weights", a.weights, types(DType::f32));
  c.rank("logits", a.logits, 2);
  c.rank("ids", a.ids, 2);
  c.same_shape("ids", a.ids, "weights", a.weights);
  if (c.failed()) return;
  const std::uint32_t tokens = a.logits.shape[0], experts = a.logits.shape[1];
  const std::uint32_t used = a.ids.shape[1];
  c.require(a.ids.shape[0] == tokens, "logits is ", a.logits.shape, ", ids is ", a.ids.shape);
  c.require(experts <= max_experts, "logits has ", experts, " experts, at most ", max_experts);
  c.require(used <= experts, "ids takes ", used, " of ", experts, " experts");
  c.require(std::isfinite(a.scale), "scale must be finite");
  const View bias = optional(c, "bias", a.bias, Shape{experts});
  const View expert_scale = optional(c, "expert_scale", a.expert_scale, Shape{experts});
  for (const View& in : {logits, bias, expert_scale}) {
    c.require(c.failed() || in.empty() || !overlap(ids, in), "ids overlaps an input");
    c.require(c.failed() || in.empty() || !overlap(weights, in), "weights overlaps an input");
  }
  c.require(c.failed() || !overlap(ids, weights), "ids overlaps weights");
  if (c.failed()) return;

  Dispatch d = dispatch(Op::moe_gate, DType::f32, here);
  d.set_params(MoeGateParams{tokens, experts, used, a.score == MoeScore::sigmoid ? 1u : 0u,
                             a.renormalise ? 1u : 0u, a.bias ? 1u : 0u, a.expert_scale ? 1u : 0u,
                             a.scale});
  d.bind(logits);
  d.bind(bias);
  d.bind(expert_scale);
  d.bind(ids);
  d.bind(weights);
  s.encode(d);
}

void moe_reduce(GraphSession& s, const MoeReduce& a, Here here) {
  Checks c(s, "moe_reduce", here);
  const View y = c.tensor("y", a.y, types(DType::f32));
  const View weights = c.tensor("weights", a.weights, types(DType::f32));
  const View out = c.tensor("out", a.out, types(DType::f32));
  c.rank("y", a.y, 3);
  if (c.failed()) return;
  const std::uint32_t tokens = a.y.shape[0], used = a.y.shape[1], dim = a.y.shape[2];
  c.require(a.weights.shape == Shape{tokens, used}, "weights is ", a.weights.shape, ", expected ",
            Shape{tokens, used});
  c.require(a.out.shape == Shape{tokens, dim}, "out is ", a.out.shape, ", expected ",
            Shape{tokens, dim});
  const View residual = optional(c, "residual", a.residual, Shape{tokens, dim});
  const View shared = optional(c, "shared", a.shared, Shape{tokens, dim});
  const View gate = optional(c, "shared_gate", a.shared_gate, Shape{tokens});
  c.require(!a.shared_gate || a.shared, "shared_gate without shared");
  c.disjoint(out, "y", y);
  c.disjoint(out, "weights", weights);
  View ids{}, bias{};
  if (a.bias) {
    ids = c.tensor("ids", a.ids, types(DType::u32));
    bias = c.tensor("bias", a.bias, types(DType::f32));
    c.rank("bias", a.bias, 2);
    c.require(c.failed() || a.ids.shape == Shape{tokens, used}, "ids is ", a.ids.shape,
              ", expected ", Shape{tokens, used});
    c.require(c.failed() || a.bias.shape[1] == dim, "bias is ", a.bias.shape, ", y has ", dim,
              " columns");
    c.disjoint(out, "ids", ids);
    c.disjoint(out, "bias", bias);
  }
  if (a.residual) c.disjoint_or_same(out, "residual", residual);
  if (a.shared) c.disjoint_or_same(out, "shared", shared);
  if (a.shared_gate) c.disjoint(out, "shared_gate", gate);
  if (c.failed()) return;

  Dispatch d = dispatch(Op::moe_reduce, DType::f32, here);
  d.set_params(MoeReduceParams{tokens, used, dim, a.residual ? 1u : 0u, a.shared ? 1u : 0u,
                               a.shared_gate ? 1u : 0u, a.bias ? a.bias.shape[0] : 0u});
  d.bind(y);
  d.bind(weights);
  d.bind(residual);
  d.bind(shared);
  d.bind(gate);
  d.bind(out);
  d.bind(ids);
  d.bind(bias);
  s.encode(d);
}

void gated(GraphSession& s, const Gated& a, Here here) {
  Checks c(s, "gated", here);
  const View gate = c.tensor("gate", a.gate, types(DType::f32));
  const View up = c.tensor("up", a.up, types(DType::f32));
  const View out = c.tensor("out", a.out, types(DType::f32, DType::q8a));
  c.same_shape("gate", a.gate, "up", a.up);
  if (c.failed()) return;
  const std::uint32_t dim = a.gate.shape.last();
  const std::uint32_t rows = c.u32("the number of rows", a.gate.shape.rows());
  c.require(a.out.shape.last() == dim && a.out.shape.rows() == rows, "gate is ", a.gate.shape,
            ", out is ", a.out.shape);
  if (a.out.dtype == DType::q8a) {
    c.disjoint(out, "gate", gate);
    c.disjoint(out, "up", up);
  } else {
    c.disjoint_or_same(out, "gate", gate);
    c.disjoint_or_same(out, "up", up);
  }
  View ids{}, gate_bias{}, up_bias{};
  c.require(bool(a.ids) == bool(a.gate_bias) && bool(a.ids) == bool(a.up_bias),
            "ids, gate_bias and up_bias go together");
  if (a.ids) {
    ids = c.tensor("ids", a.ids, types(DType::u32));
    gate_bias = c.tensor("gate_bias", a.gate_bias, types(DType::f32));
    up_bias = c.tensor("up_bias", a.up_bias, types(DType::f32));
    c.rank("gate_bias", a.gate_bias, 2);
    c.same_shape("gate_bias", a.gate_bias, "up_bias", a.up_bias);
    c.require(c.failed() || a.ids.shape.elements() == rows, "ids is ", a.ids.shape, ", gate is ",
              a.gate.shape);
    c.require(c.failed() || a.gate_bias.shape[1] == dim, "gate_bias is ", a.gate_bias.shape,
              ", gate has ", dim, " columns");
    c.disjoint(out, "ids", ids);
    c.disjoint(out, "gate_bias", gate_bias);
    c.disjoint(out, "up_bias", up_bias);
  }
  if (c.failed()) return;

  Dispatch d = dispatch(Op::gated, DType::f32, here);
  d.set_params(GatedParams{a.out.dtype == DType::q8a ? form_quantized : 0u, rows, dim,
                           static_cast<std::uint32_t>(a.activation),
                           a.ids ? a.gate_bias.shape[0] : 0u});
  d.bind(gate);
  d.bind(up);
  d.bind(ids);
  d.bind(gate_bias);
  d.bind(up_bias);
  d.bind(out);
  s.encode(d);
}

}  // namespace onepass::ops
