// Rows of keys and tensors that families share. A table is a list of such groups:
//
//   constexpr auto keys = join(size_keys, rms_keys, rope_keys);
//   constexpr auto tensors = join(model_tensors, attention_tensors<Need::optional>, gated_tensors);
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>

#include "model/architecture.h"

namespace onepass::llm {

#define FAMILY(file, architecture) extern const Architecture architecture##_row;
#include "model/families/families.def"

// Passes that families share.
Tensor transformer(GraphSession& s, const ForwardArgs& args);
Tensor parallel(GraphSession& s, const ForwardArgs& args);

// One group after the other.
template <class T, std::size_t... n>
constexpr auto join(const std::array<T, n>&... groups) {
  std::array<T, (n + ...)> all{};
  std::size_t at = 0;
  const auto add = [&](const auto& group) {
    for (const T& row : group) all[at++] = row;
  };
  (add(groups), ...);
  return all;
}

// The row with biases that are there, or may be.
constexpr TensorRow with_bias(Need bias, TensorRow row) {
  row.bias = bias;
  return row;
}

// Keys and tensors under other names of folders, by those of GGUF files.
struct FolderName {
  std::string_view gguf, folder;
};
template <std::size_t n>
constexpr std::array<Key, n> in_json(std::array<Key, n> keys,
                                     std::initializer_list<FolderName> names) {
  for (Key& key : keys) {
    for (const FolderName& name : names) {
      if (key.gguf == name.gguf) key.json = name.folder;
    }
  }
  return keys;
}
template <std::size_t n>
constexpr std::array<TensorRow, n> in_folder(std::array<TensorRow, n> rows,
                                             std::initializer_list<FolderName> names) {
  for (TensorRow& row : rows) {
    for (const FolderName& name : names) {
      if (row.gguf == name.gguf) row.hf = name.folder;
    }
  }
  return rows;
}
// Rows that folders order as GGUF files do.
template <std::size_t n>
constexpr std::array<TensorRow, n> not_paired(std::array<TensorRow, n> rows) {
  for (TensorRow& row : rows) {
    if (row.transform == Transform::paired) row.transform = Transform::none;
  }
  return rows;
}

template <int value>
double always(const ModelConfig&) {
  return value;
}
inline double if_experts(const ModelConfig& c) {  // then the key must be there
  return c.n_experts > 0 ? std::numeric_limits<double>::quiet_NaN() : 0.0;
}
inline double rope_base_of_all(const ModelConfig& c) { return static_cast<double>(c.rope.base); }

inline constexpr std::array size_keys{
    Key{.gguf = "block_count",
        .json = "num_hidden_layers",
        .count = at<&ModelConfig::n_layers>,
        .min = 1,
        .max = max_layers},
    Key{.gguf = "embedding_length",
        .json = "hidden_size",
        .count = at<&ModelConfig::dim>,
        .min = 1,
        .max = max_width},
    Key{.gguf = "feed_forward_length",
        .json = "intermediate_size",
        .count = at<&ModelConfig::ffn_dim>,
        .min = 1,
        .max = max_width,
        .per_layer = true},
    Key{.gguf = "context_length",
        .json = "max_position_embeddings",
        .count = at<&ModelConfig::context>,
        .min = 1,
        .max = max_context},
    Key{.gguf = "attention.head_count",
        .json = "num_attention_heads",
        .count = at<&ModelConfig::n_heads>,
        .min = 1,
        .max = max_heads,
        .per_layer = true},
    Key{.gguf = "attention.head_count_kv",
        .json = "num_key_value_heads",
        .count = at<&ModelConfig::n_kv_heads>,
        .min = 1,
        .max = max_heads,
        .fallback = [](const ModelConfig& c) { return double{1} * c.n_heads; },
        .per_layer = true},
    Key{.gguf = "attention.key_length",
        .json = "head_dim",
        .count = at<&ModelConfig::head_dim>,
        .min = 1,
        .max = max_width,
        .fallback = [](const ModelConfig& c) { return double{1} * (c.dim / c.n_heads); }},
    Key{.gguf = "attention.value_length",
        .count = at<&ModelConfig::value_dim>,
        .min = 1,
        .max = max_width,
        .fallback = [](const ModelConfig& c) { return double{1} * c.head_dim; }},
    Key{.gguf = "vocab_size",
        .json = "vocab_size",
        .count = at<&ModelConfig::vocab>,
        .min = 1,
        .max = max_vocab},
};

inline constexpr std::array rms_keys{
    Key{.gguf = "attention.layer_norm_rms_epsilon",
        .json = "rms_norm_eps",
        .number = at<&ModelConfig::norm_eps>,
        .min = 0.0,
        .max = 1.0},
};

inline constexpr std::array layer_norm_keys{
    Key{.gguf = "attention.layer_norm_epsilon",
        .json = "layer_norm_eps",
        .number = at<&ModelConfig::norm_eps>,
        .min = 0.0,
        .max = 1.0},
};

// How far heads turn; rope.scaling is read apart.
inline constexpr std::array rope_keys{
    Key{.gguf = "rope.freq_base",
        .json = "rope_theta",
        .number = at<&ModelConfig::rope, &RopeConfig::base>,
        .min = 1.0,
        .max = 1e12,
        .fallback = always<10000>},
    Key{.gguf = "rope.dimension_count",
        .count = at<&ModelConfig::rope, &RopeConfig::dims>,
        .min = 1,
        .max = max_width,
        .fallback = [](const ModelConfig& c) { return double{1} * c.head_dim; }},
};

// Of logits; none where no key says a number.
inline constexpr std::array softcap_keys{
    Key{.gguf = "final_logit_softcapping",
        .json = "final_logit_softcapping",
        .number = at<&ModelConfig::final_softcap>,
        .max = 1e6,
        .fallback = always<0>,
        .null_is_zero = true},
};

inline constexpr std::array expert_keys{
    Key{.gguf = "expert_count",
        .json = "num_experts num_local_experts",
        .count = at<&ModelConfig::n_experts>,
        .max = max_experts,
        .fallback = always<0>},
    Key{.gguf = "expert_used_count",
        .json = "num_experts_per_tok",
        .count = at<&ModelConfig::n_experts_used>,
        .max = max_experts,
        .fallback = if_experts},
};

// Of models that always have experts; those are as wide as a network, or as a key says.
inline constexpr std::array wide_mixture_keys{
    Key{.gguf = "expert_count",
        .json = "num_experts num_local_experts",
        .count = at<&ModelConfig::n_experts>,
        .min = 1,
        .max = max_experts},
    Key{.gguf = "expert_used_count",
        .json = "num_experts_per_tok",
        .count = at<&ModelConfig::n_experts_used>,
        .max = max_experts},
};
inline constexpr std::array expert_width_keys{
    Key{.gguf = "expert_feed_forward_length",
        .json = "moe_intermediate_size",
        .count = at<&ModelConfig::expert_ffn_dim>,
        .min = 1,
        .max = max_width,
        .fallback =
            [](const ModelConfig& c) {
              return c.n_experts_used > 0 ? double{1} * (c.ffn_dim / c.n_experts_used) : 0.0;
            }},
};
inline constexpr auto mixture_keys = join(wide_mixture_keys, expert_width_keys);
inline constexpr auto routed_keys = in_json(mixture_keys, {{"expert_count", "n_routed_experts"}});
inline constexpr std::array shared_ffn_keys{
    Key{.gguf = "expert_shared_feed_forward_length",
        .count = at<&ModelConfig::shared_ffn_dim>,
        .max = max_width,
        .fallback = always<0>},
};
// Each as wide as the others.
inline constexpr std::array shared_count_keys{
    Key{.gguf = "expert_shared_count",
        .json = "n_shared_experts",
        .count = at<&ModelConfig::n_shared_experts>,
        .max = max_experts,
        .fallback = always<0>},
};
inline constexpr std::array dense_layers_keys{
    Key{.gguf = "leading_dense_block_count",
        .json = "first_k_dense_replace",
        .count = at<&ModelConfig::dense_layers>,
        .max = max_layers,
        .fallback = always<0>},
};
inline constexpr std::array gate_scale_keys{
    Key{.gguf = "expert_weights_scale",
        .json = "routed_scaling_factor",
        .number = at<&ModelConfig::gate, &GateConfig::scale>,
        .max = 1e6,
        .fallback = always<1>},
};
// Whether the weights of the chosen experts add up to 1; not where no key says.
inline constexpr std::array gate_norm_keys{
    Key{.gguf = "expert_weights_norm",
        .json = "norm_topk_prob",
        .flag = at<&ModelConfig::gate, &GateConfig::renormalise>,
        .fallback = always<0>},
};
// Of models whose GGUF files have no word for it.
template <int usual>
constexpr std::array folder_gate_norm_keys{
    Key{.json = "norm_topk_prob",
        .flag = at<&ModelConfig::gate, &GateConfig::renormalise>,
        .fallback = always<usual>},
};
template <int function>
constexpr std::array gate_function_keys{
    Key{.gguf = "expert_gating_func",
        .count = at<&ModelConfig::gate, &GateConfig::function>,
        .min = 1,
        .max = 2,
        .fallback = always<function>},
};

inline constexpr std::array model_tensors{
    TensorRow{.gguf = "token_embd",
              .hf = "model.embed_tokens",
              .where = Where::model,
              .model = &Weights::embedding,
              .rows = Extent::vocab},
    TensorRow{.gguf = "output",
              .hf = "lm_head",
              .where = Where::model,
              .model = &Weights::output,
              .rows = Extent::vocab,
              .need = Need::usual,
              .bias = Need::optional},
};
inline constexpr std::array output_norm_tensors{
    TensorRow{.gguf = "output_norm",
              .hf = "model.norm",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::output_norm},
};
inline constexpr std::array rope_factor_tensors{
    TensorRow{.gguf = "rope_freqs",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::rope_factors,
              .cols = Extent::half_rope,
              .need = Need::optional},
    TensorRow{.gguf = "rope_factors_long",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::rope_long,
              .cols = Extent::half_rope,
              .need = Need::optional,
              .together = "rope_factors_short"},
    TensorRow{.gguf = "rope_factors_short",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::rope_short,
              .cols = Extent::half_rope,
              .need = Need::optional,
              .together = "rope_factors_long"},
};

inline constexpr std::array norm_tensors{
    TensorRow{.gguf = "attn_norm",
              .hf = "input_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::attn_norm}}},
    TensorRow{.gguf = "ffn_norm",
              .hf = "post_attention_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::ffn_norm}}},
};

inline constexpr TensorRow attn_output{.gguf = "attn_output",
                                       .hf = "self_attn.o_proj",
                                       .into = {{&LayerWeights::o, Extent::dim}},
                                       .cols = Extent::queries,
                                       .bias = Need::optional};
inline constexpr TensorRow attn_qkv{.gguf = "attn_qkv",
                                    .hf = "self_attn.qkv_proj",
                                    .into = {{&LayerWeights::q, Extent::queries},
                                             {&LayerWeights::k, Extent::keys},
                                             {&LayerWeights::v, Extent::keys}},
                                    .need = Need::optional,
                                    .bias = Need::optional};
// Queries, keys and values apart, or rows of one tensor.
template <Need bias, Need output_bias = Need::optional>
constexpr std::array attention_tensors{
    TensorRow{.gguf = "attn_q",
              .hf = "self_attn.q_proj",
              .into = {{&LayerWeights::q, Extent::queries}},
              .bias = bias,
              .transform = Transform::paired},
    TensorRow{.gguf = "attn_k",
              .hf = "self_attn.k_proj",
              .into = {{&LayerWeights::k, Extent::keys}},
              .bias = bias,
              .transform = Transform::paired},
    TensorRow{.gguf = "attn_v",
              .hf = "self_attn.v_proj",
              .into = {{&LayerWeights::v, Extent::keys}},
              .bias = bias},
    attn_qkv,
    with_bias(output_bias, attn_output),
};
// Always rows of one tensor.
template <Need bias>
constexpr std::array fused_attention_tensors{
    [] {
      TensorRow row = with_bias(bias, attn_qkv);
      row.need = Need::required;
      return row;
    }(),
    with_bias(bias, attn_output),
};

inline constexpr std::array head_norm_tensors{
    TensorRow{.gguf = "attn_q_norm",
              .hf = "self_attn.q_norm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::q_norm}},
              .cols = Extent::head},
    TensorRow{.gguf = "attn_k_norm",
              .hf = "self_attn.k_norm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::k_norm}},
              .cols = Extent::head},
};

inline constexpr TensorRow ffn_down{.gguf = "ffn_down",
                                    .hf = "mlp.down_proj",
                                    .where = Where::dense_layers,
                                    .into = {{&LayerWeights::down, Extent::dim}},
                                    .cols = Extent::ffn,
                                    .bias = Need::optional};
inline constexpr std::array gated_tensors{
    TensorRow{.gguf = "ffn_gate",
              .hf = "mlp.gate_proj",
              .where = Where::dense_layers,
              .into = {{&LayerWeights::gate, Extent::ffn}},
              .bias = Need::optional},
    TensorRow{.gguf = "ffn_up",
              .hf = "mlp.up_proj",
              .where = Where::dense_layers,
              .into = {{&LayerWeights::up, Extent::ffn}},
              .bias = Need::optional},
    ffn_down,
};
// The rows of the gate come first.
inline constexpr std::array fused_gate_tensors{
    TensorRow{.gguf = "ffn_up",
              .hf = "mlp.gate_up_proj",
              .where = Where::dense_layers,
              .into = {{&LayerWeights::gate, Extent::ffn}, {&LayerWeights::up, Extent::ffn}},
              .bias = Need::optional},
    ffn_down,
};
inline constexpr std::array expert_tensors{
    TensorRow{.gguf = "ffn_gate_inp",
              .hf = "mlp.gate",
              .where = Where::expert_layers,
              .into = {{&LayerWeights::router, Extent::experts}},
              .plain = true},
    TensorRow{.gguf = "ffn_gate_exps",
              .hf = "mlp.experts.{}.gate_proj mlp.switch_mlp.gate_proj",
              .where = Where::expert_layers,
              .form = TensorForm::experts,
              .into = {{&LayerWeights::gate_experts, Extent::expert_ffn}}},
    TensorRow{.gguf = "ffn_up_exps",
              .hf = "mlp.experts.{}.up_proj mlp.switch_mlp.up_proj",
              .where = Where::expert_layers,
              .form = TensorForm::experts,
              .into = {{&LayerWeights::up_experts, Extent::expert_ffn}}},
    TensorRow{.gguf = "ffn_down_exps",
              .hf = "mlp.experts.{}.down_proj mlp.switch_mlp.down_proj",
              .where = Where::expert_layers,
              .form = TensorForm::experts,
              .into = {{&LayerWeights::down_experts, Extent::dim}},
              .cols = Extent::expert_ffn},
};

inline constexpr std::array shared_expert_tensors{
    TensorRow{.gguf = "ffn_gate_shexp",
              .hf = "mlp.shared_experts.gate_proj",
              .where = Where::shared_layers,
              .into = {{&LayerWeights::shared_gate, Extent::shared_ffn}}},
    TensorRow{.gguf = "ffn_up_shexp",
              .hf = "mlp.shared_experts.up_proj",
              .where = Where::shared_layers,
              .into = {{&LayerWeights::shared_up, Extent::shared_ffn}}},
    TensorRow{.gguf = "ffn_down_shexp",
              .hf = "mlp.shared_experts.down_proj",
              .where = Where::shared_layers,
              .into = {{&LayerWeights::shared_down, Extent::dim}},
              .cols = Extent::shared_ffn},
};
template <Need need>
constexpr std::array expert_bias_tensors{
    TensorRow{.gguf = "exp_probs_b",
              .hf = "mlp.gate.e_score_correction_bias",
              .where = Where::expert_layers,
              .form = TensorForm::vector,
              .into = {{&LayerWeights::router_bias}},
              .cols = Extent::experts,
              .need = need,
              .suffix = ".bias"},
};
// Without a gate.
template <Need bias>
constexpr std::array plain_ffn_tensors{
    TensorRow{.gguf = "ffn_up",
              .hf = "mlp.up_proj",
              .where = Where::dense_layers,
              .into = {{&LayerWeights::up, Extent::ffn}},
              .bias = bias},
    with_bias(bias, ffn_down),
};
// Norms with a bias.
inline constexpr std::array biased_norm_tensors{
    TensorRow{.gguf = "output_norm",
              .hf = "model.norm",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::output_norm,
              .bias = Need::required},
    TensorRow{.gguf = "attn_norm",
              .hf = "input_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::attn_norm}},
              .bias = Need::required},
    TensorRow{.gguf = "ffn_norm",
              .hf = "post_attention_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::ffn_norm}},
              .bias = Need::required},
};
// Norms behind attention and feed-forward network.
inline constexpr std::array post_norm_tensors{
    TensorRow{.gguf = "post_attention_norm",
              .hf = "post_attention_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::post_attention_norm}}},
    TensorRow{.gguf = "post_ffw_norm",
              .hf = "post_feedforward_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::post_ffn_norm}}},
};
// Of whole rows of queries and keys.
inline constexpr std::array row_norm_tensors{
    TensorRow{.gguf = "attn_q_norm",
              .hf = "self_attn.q_norm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::q_norm}},
              .cols = Extent::queries},
    TensorRow{.gguf = "attn_k_norm",
              .hf = "self_attn.k_norm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::k_norm}},
              .cols = Extent::keys},
};
// Of each head on its own, with weights of its own.
inline constexpr std::array each_head_norm_tensors{
    TensorRow{.gguf = "attn_q_norm",
              .hf = "self_attn.q_norm",
              .form = TensorForm::vectors,
              .into = {{&LayerWeights::q_norm, Extent::heads}},
              .cols = Extent::head,
              .need = Need::optional,
              .plain = true},
    TensorRow{.gguf = "attn_k_norm",
              .hf = "self_attn.k_norm",
              .form = TensorForm::vectors,
              .into = {{&LayerWeights::k_norm, Extent::kv_heads}},
              .cols = Extent::head,
              .need = Need::optional,
              .plain = true},
};

// Of models whose files say a window that no reader of such files applies.
inline constexpr std::array ignored_window{
    Harmless{"attention.sliding_window", "llama.cpp and mlx-lm attend to all keys, too"},
};

}  // namespace onepass::llm
