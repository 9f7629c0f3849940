#include "model/families/layers.h"

#include "model/expert_cache.h"

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

namespace {

void norm(GraphSession& s, const ModelConfig& c, const Linear& w, const Tensor& x,
          const Tensor& out) {
  if (c.architecture->norm == NormKind::layer) {
    ops::layer_norm(s, {.x = x, .weight = w.weight, .bias = w.bias, .out = out, .eps = c.norm_eps});
  } else {
    ops::rms_norm(s, {.x = x, .weight = w.weight, .out = out, .eps = c.norm_eps});
    if (w.bias) ops::add(s, {.a = out, .b = w.bias, .out = out});
  }
}

}  // namespace

Tensor Layers::linear(const Linear& w, const Tensor& x) const {
  const Tensor out = rows(w.weight.shape[0]);
  llm::linear(s_, w, x, out);
  return out;
}

Tensor Layers::embed() const {
  const Tensor h = embed(a_.weights.embedding, c_.embedding_scale);
  const Linear& positions = a_.weights.positions;
  if (!positions) return h;
  const Tensor at = rows(c_.dim);
  ops::embed(s_, {.table = positions.weight, .out = at, .tokens = a_.step, .by_position = true});
  return add(h, at);
}

Tensor Layers::embed(const Linear& table, float scale) const {
  const std::uint32_t width = table.scales ? table.scales.shape.last() * table.affine.group_size
                                           : table.weight.shape.last();
  const Tensor out = rows(width);
  if (table.scales) {
    ops::embed_affine(s_, {.weight = table.weight,
                           .scales = table.scales,
                           .biases = table.biases,
                           .out = out,
                           .tokens = a_.step,
                           .bits = table.affine.bits,
                           .group_size = table.affine.group_size,
                           .scale = scale});
  } else {
    ops::embed(s_, {.table = table.weight, .out = out, .tokens = a_.step, .scale = scale});
  }
  return out;
}

Tensor Layers::norm(const Tensor& x, const Linear& w) const {
  if (!w) return x;
  const Tensor out = rows(x.shape.last());
  onepass::llm::norm(s_, c_, w, x, out);
  return out;
}

Tensor Layers::norm_heads(const Tensor& x, const Linear& w) const {
  if (!w) return x;
  const Tensor out = rows(x.shape.last());
  const std::uint32_t width = w.weight.shape.last();
  const auto as_rows = [&](const Tensor& t) {
    return tensor(t.view, t.dtype, {a_.rows * (t.shape.last() / width), width});
  };
  if (w.weight.shape.rank == 1) {
    onepass::llm::norm(s_, c_, w, as_rows(x), as_rows(out));
    return out;
  }
  // Heads with weights of their own.
  const Tensor all = tensor(w.weight.view, w.weight.dtype, {x.shape.last()});
  onepass::llm::norm(s_, c_, {}, as_rows(x), as_rows(out));
  ops::mul(s_, {.a = out, .b = all, .out = out});
  return out;
}

Tensor Layers::add(const Tensor& a, const Tensor& b) const {
  const Tensor out = rows(a.shape.last());
  ops::add(s_, {.a = a, .b = b, .out = out});
  return out;
}

Tensor Layers::scaled(const Tensor& x) const {
  if (c_.residual_scale == 1.0f) return x;
  const Tensor out = rows(x.shape.last());
  ops::scale(s_, {.x = x, .out = out, .factor = c_.residual_scale});
  return out;
}

Tensor Layers::join(const Tensor& residual, const Tensor& x, const Linear& norm_after) const {
  return add(residual, scaled(norm(x, norm_after)));
}

Tensor Layers::turned(std::uint32_t i, const Tensor& x, const Linear& norm) const {
  if (c_.architecture->norm_after_rope) {
    rotate(i, x);
    return norm_heads(x, norm);
  }
  const Tensor y = norm_heads(x, norm);
  rotate(i, y);
  return y;
}

Tensor Layers::attention(std::uint32_t i, const Tensor& x) const {
  const LayerWeights& w = a_.weights.layers[i];
  const Tensor wide_q = linear(w.q, x);
  if (!c_.has_cache(i)) return linear(w.o, attend(i, turned(i, wide_q, w.q_norm)));
  const Tensor wide_k = linear(w.k, x), wide_v = w.v ? linear(w.v, x) : wide_k;
  const Tensor v = norm_values(i, wide_v);
  const Tensor q = turned(i, wide_q, w.q_norm), k = turned(i, wide_k, w.k_norm);
  store(i, k, v);
  return linear(w.o, attend(i, q));
}

void Layers::fill_cache(std::uint32_t i, const Tensor& x) const {
  const LayerWeights& w = a_.weights.layers[i];
  const Tensor wide_k = linear(w.k, x), wide_v = w.v ? linear(w.v, x) : wide_k;
  const Tensor v = norm_values(i, wide_v);
  store(i, turned(i, wide_k, w.k_norm), v);
}

Tensor Layers::norm_values(std::uint32_t i, const Tensor& v) const {
  if (!c_.architecture->value_norm) return v;
  const Tensor out = rows(v.shape.last());
  ops::rms_norm(s_, {.x = heads(i, v), .out = heads(i, out), .eps = c_.norm_eps});
  return out;
}

void Layers::rotate(std::uint32_t i, const Tensor& x) const {
  const RopeConfig& r = c_.rope;
  if (r.dims == 0 || (i < r.still.size() && r.still[i] != 0)) return;
  const bool local = c_.is_local(i) && !c_.architecture->scaled_windows;
  const Weights& w = a_.weights;
  const bool long_context = a_.context > r.scaling.n_ctx_orig;
  const Tensor& by_context = long_context ? w.rope_long.weight : w.rope_short.weight;
  ops::rope(s_, {.x = heads(i, x),
                 .out = heads(i, x),
                 .positions = a_.step,
                 .theta = local ? r.base_local : r.base,
                 .mode = r.mode,
                 .rope_dim = local && r.dims_local != 0 ? r.dims_local : r.dims,
                 .freq_factors = local        ? Tensor{}
                                 : by_context ? by_context
                                              : w.rope_factors.weight,
                 .scaling = local ? ops::RopeScaling{} : r.scaling});
}

void Layers::store(std::uint32_t i, const Tensor& k, const Tensor& v) const {
  ops::kv_store(s_, {.x = heads(i, k), .cache = a_.cache[i].k, .step = a_.step});
  ops::kv_store(s_, {.x = heads(i, v), .cache = a_.cache[i].v, .step = a_.step});
}

Tensor Layers::attend(std::uint32_t i, const Tensor& q) const {
  const KvLayer& kv = a_.cache[i];
  const Tensor out = rows(q.shape.last());
  ops::attention(s_, {.q = heads(i, q),
                      .k = kv.k,
                      .v = kv.v,
                      .out = heads(i, out),
                      .scale = c_.attention_scale,
                      .step = a_.step,
                      .window = c_.is_local(i) ? c_.window : 0,
                      .softcap = c_.attention_softcap,
                      .sinks = a_.weights.layers[i].sinks.weight});
  return out;
}

namespace {

ops::GateActivation gate_activation(Activation a) {
  switch (a) {
    case Activation::silu:
      return ops::GateActivation::silu;
    case Activation::gelu:
      return ops::GateActivation::gelu;
    case Activation::relu2:
      return ops::GateActivation::relu2;
    case Activation::clamped_silu:
      return ops::GateActivation::clamped_silu;
  }
  return ops::GateActivation::silu;
}

}  // namespace

Tensor Layers::gated(const Tensor& gate, const Tensor& up) const {
  const Activation activation = c_.architecture->activation;
  const Tensor out = rows(gate.shape.last());
  // These two can be part of the products.
  if (activation == Activation::silu) {
    ops::silu_mul(s_, {.a = gate, .b = up, .out = out});
  } else if (activation == Activation::gelu) {
    ops::gelu_mul(s_, {.a = gate, .b = up, .out = out});
  } else {
    ops::gated(s_, {.gate = gate, .up = up, .out = out, .activation = gate_activation(activation)});
  }
  return out;
}

Tensor Layers::network(const Linear& gate, const Linear& up, const Linear& down,
                       const Tensor& x) const {
  if (gate) {
    const Tensor a = linear(gate, x), b = linear(up, x);
    return linear(down, gated(a, b));
  }
  const Tensor a = linear(up, x), out = rows(a.shape.last());
  switch (c_.architecture->activation) {
    case Activation::silu:
    case Activation::clamped_silu:  // clamped where there is a gate
      ops::silu(s_, {.x = a, .out = out});
      break;
    case Activation::gelu:
      ops::gelu(s_, {.x = a, .out = out});
      break;
    case Activation::relu2:
      ops::relu2(s_, {.x = a, .out = out});
      break;
  }
  return linear(down, out);
}

Tensor Layers::feed_forward(std::uint32_t i, const Tensor& x, const Tensor& residual) const {
  const LayerWeights& w = a_.weights.layers[i];
  if (!c_.has_experts(i)) return join(residual, network(w.gate, w.up, w.down, x), w.post_ffn_norm);
  const bool direct = !w.post_ffn_norm && c_.residual_scale == 1.0f;
  const Tensor logits = linear(w.router, x);
  if (direct) return experts(w, x, logits, residual);
  return join(residual, experts(w, x, logits, {}), w.post_ffn_norm);
}

Tensor Layers::experts(const LayerWeights& w, const Tensor& x, const Tensor& logits,
                       const Tensor& residual) const {
  const std::uint32_t used = c_.n_experts_used, ffn = c_.expert_ffn_dim;
  const auto pairs = [&](std::uint32_t width) {
    return s_.scratch(DType::f32, {a_.rows, used, width});
  };
  const Tensor ids = s_.scratch(DType::u32, {a_.rows, used}), weights = rows(used);
  ops::moe_gate(s_,
                {.logits = logits,
                 .ids = ids,
                 .weights = weights,
                 .bias = w.router_bias.weight,
                 .expert_scale = w.expert_scale.weight,
                 .score = c_.gate.function == 2 ? ops::MoeScore::sigmoid : ops::MoeScore::softmax,
                 .renormalise = c_.gate.renormalise,
                 .scale = c_.gate.scale});
  const Tensor gate = pairs(ffn), up = pairs(ffn), down = pairs(c_.dim);
  const Tensor at = w.cache != nullptr ? w.cache->record(s_, ids) : ids;
  ops::matmul_id(s_, {.x = x, .weight = w.gate_experts.weight, .ids = at, .out = gate});
  ops::matmul_id(s_, {.x = x, .weight = w.up_experts.weight, .ids = at, .out = up});
  const Tensor inner = pairs(ffn);
  ops::gated(s_, {.gate = gate,
                  .up = up,
                  .out = inner,
                  .activation = gate_activation(c_.architecture->activation),
                  .ids = w.gate_experts.bias ? ids : Tensor{},
                  .gate_bias = w.gate_experts.bias,
                  .up_bias = w.up_experts.bias});
  ops::matmul_id(s_, {.x = inner, .weight = w.down_experts.weight, .ids = at, .out = down});
  Tensor shared{}, shared_gate{};
  if (w.shared_up) {
    shared = network(w.shared_gate, w.shared_up, w.shared_down, x);
    if (w.shared_router) {
      const Tensor logit = linear(w.shared_router, x);
      shared_gate = tensor(logit.view, logit.dtype, {a_.rows});
    }
  }
  const Tensor out = rows(c_.dim);
  ops::moe_reduce(s_, {.y = down,
                       .weights = weights,
                       .out = out,
                       .residual = residual,
                       .shared = shared,
                       .shared_gate = shared_gate,
                       .ids = w.down_experts.bias ? ids : Tensor{},
                       .bias = w.down_experts.bias});
  return out;
}

void output_head(GraphSession& s, const ForwardArgs& a, const Tensor& hidden,
                 const Tensor& logits) {
  const ModelConfig& c = a.config;
  const Tensor x = s.scratch(DType::f32, {a.rows, c.dim});
  norm(s, c, a.weights.output_norm, hidden, x);
  linear(s, a.weights.output, x, logits);
  const float scale = c.logit_scale / c.logit_divisor;
  if (scale != 1.0f) ops::scale(s, {.x = logits, .out = logits, .factor = scale});
  if (c.final_softcap > 0.0f) {
    ops::softcap(s, {.x = logits, .out = logits, .cap = c.final_softcap});
  }
}

}  // namespace onepass::llm
