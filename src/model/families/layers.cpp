#include "model/families/layers.h"

namespace onepass::llm {

void linear(GraphSession& s, const Linear& w, const Tensor& x, const Tensor& out) {
  if (w.scales) {
    ops::matmul_affine(s, {.x = x,
                           .weight = w.weight,
                           .scales = w.scales,
                           .biases = w.biases,
                           .out = out,
                           .bits = w.affine.bits,
                           .group_size = w.affine.group_size});
  } else {
    ops::matmul(s, {.x = x, .weight = w.weight, .out = out});
  }
  if (w.bias) ops::add(s, {.a = out, .b = w.bias, .out = out});
}

Tensor Layers::linear(const Linear& w, const Tensor& x) const {
  const Tensor out = rows(w.weight.shape[0]);
  llm::linear(s_, w, x, out);
  return out;
}

Tensor Layers::embed() const {
  const Linear& table = a_.weights.embedding;
  const Tensor out = rows(c_.dim);
  if (table.scales) {
    ops::embed_affine(s_, {.weight = table.weight,
                           .scales = table.scales,
                           .biases = table.biases,
                           .out = out,
                           .tokens = a_.step,
                           .bits = table.affine.bits,
                           .group_size = table.affine.group_size,
                           .scale = c_.embedding_scale});
  } else {
    ops::embed(s_,
               {.table = table.weight, .out = out, .tokens = a_.step, .scale = c_.embedding_scale});
  }
  return out;
}

Tensor Layers::norm(const Tensor& x, const Tensor& weight) const {
  const Tensor out = rows(x.shape.last());
  ops::rms_norm(s_, {.x = x, .weight = weight, .out = out, .eps = c_.norm_eps});
  return out;
}

Tensor Layers::norm_heads(const Tensor& x, const Tensor& weight) const {
  const Tensor out = rows(x.shape.last());
  const auto as_rows = [&](const Tensor& t) {
    return tensor(t.view, t.dtype, {a_.rows * (t.shape.last() / c_.head_dim), c_.head_dim});
  };
  ops::rms_norm(s_, {.x = as_rows(x), .weight = weight, .out = as_rows(out), .eps = c_.norm_eps});
  return out;
}

Tensor Layers::add(const Tensor& a, const Tensor& b) const {
  const Tensor out = rows(a.shape.last());
  ops::add(s_, {.a = a, .b = b, .out = out});
  return out;
}

void Layers::rotate(std::uint32_t i, const Tensor& x) const {
  const bool local = c_.is_local(i);
  const RopeConfig& r = c_.rope;
  const Weights& w = a_.weights;
  const bool long_context = a_.context > r.scaling.n_ctx_orig;
  const Tensor& by_context = long_context ? w.rope_long : w.rope_short;
  ops::rope(s_, {.x = heads(x),
                 .out = heads(x),
                 .positions = a_.step,
                 .theta = local ? r.base_local : r.base,
                 .mode = r.mode,
                 .rope_dim = r.dims,
                 .freq_factors = local        ? Tensor{}
                                 : by_context ? by_context
                                              : w.rope_factors,
                 .scaling = local ? ops::RopeScaling{} : r.scaling});
}

void Layers::store(std::uint32_t i, const Tensor& k, const Tensor& v) const {
  ops::kv_store(s_, {.x = heads(k), .cache = a_.cache[i].k, .step = a_.step});
  ops::kv_store(s_, {.x = heads(v), .cache = a_.cache[i].v, .step = a_.step});
}

Tensor Layers::attend(std::uint32_t i, const Tensor& q, const Tensor& k, const Tensor& v) const {
  store(i, k, v);
  const KvLayer& kv = a_.cache[i];
  const Tensor out = rows(q.shape.last());
  ops::attention(s_, {.q = heads(q),
                      .k = kv.k,
                      .v = kv.v,
                      .out = heads(out),
                      .scale = c_.attention_scale,
                      .step = a_.step,
                      .window = c_.is_local(i) ? c_.window : 0,
                      .softcap = c_.attention_softcap});
  return out;
}

Tensor Layers::silu_mul(const Tensor& gate, const Tensor& up) const {
  const Tensor out = rows(gate.shape.last());
  ops::silu_mul(s_, {.a = gate, .b = up, .out = out});
  return out;
}

Tensor Layers::gelu_mul(const Tensor& gate, const Tensor& up) const {
  const Tensor out = rows(gate.shape.last());
  ops::gelu_mul(s_, {.a = gate, .b = up, .out = out});
  return out;
}

Tensor Layers::experts(const LayerWeights& w, const Tensor& x, const Tensor& residual) const {
  const std::uint32_t used = c_.n_experts_used, ffn = c_.expert_ffn_dim;
  const auto pairs = [&](std::uint32_t width) {
    return s_.scratch(DType::f32, {a_.rows, used, width});
  };
  const Tensor ids = s_.scratch(DType::u32, {a_.rows, used}), weights = rows(used);
  ops::moe_gate(s_, {.logits = linear(w.router, x), .ids = ids, .weights = weights});
  const Tensor gate = pairs(ffn), up = pairs(ffn), gated = pairs(ffn), down = pairs(c_.dim);
  ops::matmul_id(s_, {.x = x, .weight = w.gate_experts, .ids = ids, .out = gate});
  ops::matmul_id(s_, {.x = x, .weight = w.up_experts, .ids = ids, .out = up});
  ops::silu_mul(s_, {.a = gate, .b = up, .out = gated});
  ops::matmul_id(s_, {.x = gated, .weight = w.down_experts, .ids = ids, .out = down});
  const Tensor out = rows(c_.dim);
  ops::moe_reduce(s_, {.y = down, .weights = weights, .out = out, .residual = residual});
  return out;
}

}  // namespace onepass::llm
