#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr TensorRow norm(std::string_view gguf, std::string_view hf, Linear LayerWeights::*into,
                         Extent cols = Extent::dim) {
  return {.gguf = gguf,
          .hf = hf,
          .form = TensorForm::vector,
          .into = {{into}},
          .cols = cols,
          .transform = Transform::plus_one};
}
constexpr std::array norms{
    TensorRow{.gguf = "output_norm",
              .hf = "model.norm",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::output_norm,
              .transform = Transform::plus_one},
    norm("attn_norm", "input_layernorm", &LayerWeights::attn_norm),
    norm("post_attention_norm", "post_attention_layernorm", &LayerWeights::post_attention_norm),
    norm("ffn_norm", "pre_feedforward_layernorm", &LayerWeights::ffn_norm),
    norm("post_ffw_norm", "post_feedforward_layernorm", &LayerWeights::post_ffn_norm),
};
constexpr std::array head_norms{
    norm("attn_q_norm", "self_attn.q_norm", &LayerWeights::q_norm, Extent::head),
    norm("attn_k_norm", "self_attn.k_norm", &LayerWeights::k_norm, Extent::head),
};

// Without those behind attention and network; the head is the embedding.
constexpr std::array first_embedding{
    TensorRow{.gguf = "token_embd",
              .hf = "model.embed_tokens",
              .where = Where::model,
              .model = &Weights::embedding,
              .rows = Extent::vocab},
    TensorRow{.gguf = "output_norm",
              .hf = "model.norm",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::output_norm,
              .transform = Transform::plus_one},
    norm("attn_norm", "input_layernorm", &LayerWeights::attn_norm),
    norm("ffn_norm", "post_attention_layernorm", &LayerWeights::ffn_norm),
};
constexpr auto tensors1 = join(first_embedding, attention_tensors<Need::optional>, gated_tensors);
constexpr auto keys1 = join(size_keys, rms_keys, rope_keys);

constexpr auto tensors2 =
    join(model_tensors, norms, attention_tensors<Need::optional>, gated_tensors);
constexpr auto tensors3 = join(model_tensors, norms, attention_tensors<Need::optional>, head_norms,
                               gated_tensors, rope_factor_tensors);

constexpr std::array shared_keys{
    Key{.json = "query_pre_attn_scalar",
        .number = at<&ModelConfig::query_scalar>,
        .min = 1e-3,
        .max = 1e6,
        .fallback = always<0>},
    Key{.gguf = "attention.scale",
        .number = at<&ModelConfig::attention_scale>,
        .min = 1e-6,
        .max = 1e3,
        .fallback = always<0>},
};
template <int published>
constexpr std::array window_keys{
    Key{.gguf = "attention.sliding_window",
        .json = "sliding_window",
        .count = at<&ModelConfig::window>,
        .max = max_context,
        .fallback = always<published>},
};
template <double (*fallback)(const ModelConfig&)>
constexpr std::array local_base_keys{
    Key{.gguf = "rope.freq_base_swa",
        .json = "rope_local_base_freq",
        .number = at<&ModelConfig::rope, &RopeConfig::base_local>,
        .min = 1.0,
        .max = 1e12,
        .fallback = fallback},
};
// Of attention and of logits, as published.
template <int attention, int logits>
constexpr std::array softcaps{
    Key{.gguf = "attn_logit_softcapping",
        .json = "attn_logit_softcapping",
        .number = at<&ModelConfig::attention_softcap>,
        .max = 1e6,
        .fallback = always<attention>,
        .null_is_zero = true},
    Key{.gguf = "final_logit_softcapping",
        .json = "final_logit_softcapping",
        .number = at<&ModelConfig::final_softcap>,
        .max = 1e6,
        .fallback = always<logits>,
        .null_is_zero = true},
};
constexpr auto keys2 = join(size_keys, rms_keys, rope_keys, local_base_keys<rope_base_of_all>,
                            window_keys<4096>, softcaps<50, 30>, shared_keys);
constexpr auto keys3 = join(size_keys, rms_keys, rope_keys, local_base_keys<always<10000>>,
                            window_keys<0>, softcaps<0, 0>, shared_keys);

void derive(ModelConfig& c) { c.embedding_scale = std::sqrt(static_cast<float>(c.dim)); }

}  // namespace

// Gemma: GELU, norms of 1 + w, rows of the embedding scaled.
constinit const Architecture gemma_row{
    .name = "gemma",
    .model_types = "gemma",
    .class_name = "GemmaForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys1,
    .tensors = tensors1,
    .activation = Activation::gelu,
    .derive = derive,
};

// Gemma 2: norms before and after attention and feed-forward network, GELU, capped logits, every
// second layer with a window.
constinit const Architecture gemma2_row{
    .name = "gemma2",
    .model_types = "gemma2",
    .class_name = "Gemma2ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys2,
    .tensors = tensors2,
    .activation = Activation::gelu,
    .partial_rotary = true,
    .window_pattern = true,
    .window_period = 2,
    .wide_layers = 46,
    .derive = derive,
};

// Gemma 3: a norm on each head of queries and keys, five layers with a window and a base of their
// own to each without.
constinit const Architecture gemma3_row{
    .name = "gemma3",
    .model_types = "gemma3_text",
    .class_name = "Gemma3ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys3,
    .tensors = tensors3,
    .activation = Activation::gelu,
    .partial_rotary = true,
    .window_pattern = true,
    .window_period = 6,
    .wide_layers = 62,
    .derive = derive,
};

}  // namespace onepass::llm
