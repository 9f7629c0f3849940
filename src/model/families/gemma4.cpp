#include "model/families/layers.h"
#include "model/families/tables.h"

namespace onepass::llm {
namespace {

// Layers may differ in heads of keys and width of the network.
constexpr auto sizes = [] {
  auto rows = size_keys;
  for (Key& key : rows) {
    if (key.gguf == "feed_forward_length") key.list = at<&ModelConfig::layer_ffn_dims>;
    if (key.gguf == "attention.head_count_kv") key.list = at<&ModelConfig::layer_kv_heads>;
  }
  return rows;
}();
constexpr std::array window_keys{
    Key{.gguf = "attention.sliding_window", .count = at<&ModelConfig::window>, .max = max_context},
    Key{.gguf = "attention.key_length_swa",
        .count = at<&ModelConfig::head_dim_local>,
        .min = 1,
        .max = max_width,
        .fallback = [](const ModelConfig& c) { return double{1} * c.head_dim; }},
    Key{.gguf = "attention.value_length_swa",
        .count = at<&ModelConfig::value_dim_local>,
        .min = 1,
        .max = max_width,
        .fallback = [](const ModelConfig& c) { return double{1} * c.head_dim_local; }},
    Key{.gguf = "rope.freq_base_swa",
        .number = at<&ModelConfig::rope, &RopeConfig::base_local>,
        .min = 1.0,
        .max = 1e12,
        .fallback = rope_base_of_all},
    Key{.gguf = "rope.dimension_count_swa",
        .count = at<&ModelConfig::rope, &RopeConfig::dims_local>,
        .min = 1,
        .max = max_width,
        .fallback = [](const ModelConfig& c) { return double{1} * c.rope.dims; }},
    Key{.gguf = "attention.shared_kv_layers",
        .count = at<&ModelConfig::shared_kv_layers>,
        .max = max_layers,
        .fallback = always<0>},
    Key{.gguf = "embedding_length_per_layer_input",
        .count = at<&ModelConfig::per_layer_dim>,
        .max = max_width,
        .fallback = always<0>},
};
constexpr std::array expert_width_keys{
    Key{.gguf = "expert_feed_forward_length",
        .count = at<&ModelConfig::expert_ffn_dim>,
        .max = max_width,
        .fallback = if_experts,
        .per_layer = true},
};
// As published where no key says.
constexpr auto softcap = [] {
  auto rows = softcap_keys;
  rows[0].fallback = always<30>;
  return rows;
}();
constexpr auto keys =
    join(sizes, rms_keys, rope_keys, window_keys, softcap, expert_keys, expert_width_keys);

constexpr TensorRow norm(std::string_view gguf, Linear LayerWeights::*into,
                         Extent cols = Extent::dim, Where where = Where::layers) {
  return {.gguf = gguf, .where = where, .form = TensorForm::vector, .into = {{into}}, .cols = cols};
}
constexpr TensorRow matrix(std::string_view gguf, Linear LayerWeights::*into, Extent rows,
                           Extent cols = Extent::dim, Where where = Where::layers) {
  return {.gguf = gguf, .where = where, .into = {{into, rows}}, .cols = cols};
}
constexpr TensorRow optional(TensorRow row, Need need = Need::optional) {
  row.need = need;
  return row;
}

constexpr std::array model_rows{
    TensorRow{.gguf = "rope_freqs",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::rope_factors,
              .cols = Extent::half_rope_wide},
    TensorRow{.gguf = "per_layer_token_embd",
              .where = Where::model,
              .model = &Weights::layer_inputs,
              .rows = Extent::vocab,
              .cols = Extent::per_layers},
    TensorRow{.gguf = "per_layer_model_proj",
              .where = Where::model,
              .model = &Weights::layer_input_proj,
              .rows = Extent::per_layers},
    TensorRow{.gguf = "per_layer_proj_norm",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::layer_input_norm,
              .cols = Extent::per_layer},
};
constexpr std::array attention{
    norm("attn_norm", &LayerWeights::attn_norm),
    matrix("attn_q", &LayerWeights::q, Extent::queries),
    matrix("attn_k", &LayerWeights::k, Extent::keys, Extent::dim, Where::cache_layers),
    optional(matrix("attn_v", &LayerWeights::v, Extent::keys, Extent::dim, Where::cache_layers),
             Need::usual),
    matrix("attn_output", &LayerWeights::o, Extent::dim, Extent::queries),
    norm("attn_q_norm", &LayerWeights::q_norm, Extent::head),
    norm("attn_k_norm", &LayerWeights::k_norm, Extent::head, Where::cache_layers),
    norm("post_attention_norm", &LayerWeights::post_attention_norm),
};
constexpr std::array network{
    norm("ffn_norm", &LayerWeights::ffn_norm),
    matrix("ffn_gate", &LayerWeights::gate, Extent::ffn),
    matrix("ffn_up", &LayerWeights::up, Extent::ffn),
    matrix("ffn_down", &LayerWeights::down, Extent::dim, Extent::ffn),
    norm("post_ffw_norm", &LayerWeights::post_ffn_norm),
};
constexpr std::array own_input{
    matrix("inp_gate", &LayerWeights::input_gate, Extent::per_layer),
    matrix("proj", &LayerWeights::input_proj, Extent::dim, Extent::per_layer),
    TensorRow{.gguf = "post_norm",
              .where = Where::input_layers,
              .form = TensorForm::vector,
              .into = {{&LayerWeights::input_norm}}},
    TensorRow{.gguf = "layer_output_scale",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::output_scale}},
              .cols = Extent::one,
              .need = Need::usual,
              .spread = true},
};
// Beside the network, which they share the layer with.
constexpr auto one_tensor = [] {
  TensorRow row{.gguf = "ffn_gate_up_exps",
                .where = Where::expert_layers,
                .form = TensorForm::experts,
                .into = {{&LayerWeights::gate_experts, Extent::expert_ffn},
                         {&LayerWeights::up_experts, Extent::expert_ffn}},
                .need = Need::optional};
  return row;
}();
constexpr auto scale_of = [](TensorRow row) {
  row.suffix = ".scale";
  return row;
};
constexpr std::array experts{
    one_tensor,
    scale_of(norm("ffn_gate_inp", &LayerWeights::router_norm, Extent::dim, Where::expert_layers)),
    scale_of(optional(
        norm("ffn_down_exps", &LayerWeights::expert_scale, Extent::experts, Where::expert_layers))),
    norm("pre_ffw_norm_2", &LayerWeights::expert_norm, Extent::dim, Where::expert_layers),
    norm("post_ffw_norm_1", &LayerWeights::post_dense_norm, Extent::dim, Where::expert_layers),
    norm("post_ffw_norm_2", &LayerWeights::post_expert_norm, Extent::dim, Where::expert_layers),
};
constexpr auto tensors = join(model_tensors, output_norm_tensors, model_rows, attention, network,
                              own_input, experts, expert_tensors);

float root(std::uint32_t n) { return std::sqrt(static_cast<float>(n)); }

class Gemma4 {
 public:
  Gemma4(GraphSession& s, const ForwardArgs& a) : s_(s), a_(a), c_(a.config), n_(s, a) {}

  Tensor pass() const {
    Tensor h = n_.embed();
    const Tensor inputs = layer_inputs(h);
    for (std::uint32_t i = 0; i < c_.n_layers; ++i) {
      const LayerWeights& w = a_.weights.layers[i];
      const Tensor x = n_.norm(h, w.attn_norm);
      if (a_.ends_at(i)) {
        n_.fill_cache(i, x);
        return {};
      }
      const Tensor r = n_.join(h, n_.attention(i, x), w.post_attention_norm);
      h = n_.join(r, feed_forward(i, r), w.post_ffn_norm);
      if (inputs) h = add_input(i, h, inputs);
      if (w.output_scale) h = scaled(h, w.output_scale);
    }
    return h;
  }

 private:
  Tensor rows(std::uint32_t width) const { return s_.scratch(DType::f32, {a_.rows, width}); }

  // The network; with experts beside it, which have norms of their own.
  Tensor feed_forward(std::uint32_t i, const Tensor& r) const {
    const LayerWeights& w = a_.weights.layers[i];
    const Tensor y = n_.network(w.gate, w.up, w.down, n_.norm(r, w.ffn_norm));
    if (!c_.has_experts(i)) return y;
    const Tensor logits = n_.linear(w.router, n_.norm(r, w.router_norm));
    ops::scale(s_, {.x = logits, .out = logits, .factor = 1.0f / root(c_.dim)});
    const Tensor z = n_.experts(w, n_.norm(r, w.expert_norm), logits, {});
    return n_.add(n_.norm(y, w.post_dense_norm), n_.norm(z, w.post_expert_norm));
  }

  // [rows, layers * per_layer_dim]: of each token, and of its embedding. Divided by the root of dim
  // the latter would be normed; eps is multiplied instead.
  Tensor layer_inputs(const Tensor& h) const {
    const Weights& w = a_.weights;
    if (!w.layer_inputs) return {};
    const Tensor by_token = n_.embed(w.layer_inputs, root(c_.per_layer_dim));
    const Tensor wide = n_.linear(w.layer_input_proj, h), normed = rows(wide.shape.last());
    const std::uint32_t n = a_.rows * (wide.shape.last() / c_.per_layer_dim);
    const auto inputs = [&](const Tensor& t) {
      return tensor(t.view, t.dtype, {n, c_.per_layer_dim});
    };
    ops::rms_norm(s_, {.x = inputs(wide),
                       .weight = w.layer_input_norm.weight,
                       .out = inputs(normed),
                       .eps = c_.norm_eps * static_cast<float>(c_.dim)});
    const Tensor sum = n_.add(normed, by_token);
    ops::scale(s_, {.x = sum, .out = sum, .factor = 1.0f / root(2)});
    return sum;
  }

  Tensor add_input(std::uint32_t i, const Tensor& h, const Tensor& inputs) const {
    const LayerWeights& w = a_.weights.layers[i];
    const Tensor own = rows(c_.per_layer_dim), gate = n_.linear(w.input_gate, h);
    ops::slice(s_, {.x = inputs, .out = own, .start = i * c_.per_layer_dim});
    ops::gelu_mul(s_, {.a = gate, .b = own, .out = gate});
    return n_.join(h, n_.linear(w.input_proj, gate), w.input_norm);
  }

  Tensor scaled(const Tensor& h, const Linear& factor) const {
    const Tensor out = rows(c_.dim);
    ops::mul(s_, {.a = h, .b = factor.weight, .out = out});
    return out;
  }

  GraphSession& s_;
  const ForwardArgs& a_;
  const ModelConfig& c_;
  const Layers n_;
};

Tensor gemma4(GraphSession& s, const ForwardArgs& a) { return Gemma4(s, a).pass(); }

}  // namespace

// Gemma 4: layers with and without a window have heads of their own sizes, the last ones use caches
// of earlier ones, each may have an input of its own, experts stand beside a network.
constinit const Architecture gemma4_row{
    .name = "gemma4",
    .rope = ops::RopeMode::neox,
    .forward = gemma4,
    .keys = keys,
    .tensors = tensors,
    .activation = Activation::gelu,
    .partial_rotary = true,
    .window_pattern = true,
    .window_period = 6,
    .window_number = true,
    .value_norm = true,
    .derive =
        [](ModelConfig& c) {
          c.embedding_scale = root(c.dim);
          c.attention_scale = 1.0f;
        },
};

}  // namespace onepass::llm
