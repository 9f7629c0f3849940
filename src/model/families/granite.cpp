#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array scale_keys{
    Key{.gguf = "embedding_scale",
        .json = "embedding_multiplier",
        .number = at<&ModelConfig::embedding_scale>,
        .max = 1e6,
        .fallback = always<1>},
    Key{.gguf = "residual_scale",
        .json = "residual_multiplier",
        .number = at<&ModelConfig::residual_scale>,
        .max = 1e6,
        .fallback = always<1>},
    Key{.gguf = "logit_scale",
        .json = "logits_scaling",
        .number = at<&ModelConfig::logit_divisor>,
        .min = 1e-6,
        .max = 1e6},
    Key{.gguf = "attention.scale",
        .json = "attention_multiplier",
        .number = at<&ModelConfig::attention_scale>,
        .max = 1e3,
        .fallback = always<0>},
};
constexpr std::array minicpm_scale_keys{
    Key{.gguf = "embedding_scale",
        .json = "scale_emb",
        .number = at<&ModelConfig::embedding_scale>,
        .max = 1e6,
        .fallback = always<12>},
    Key{.gguf = "residual_scale",
        .number = at<&ModelConfig::residual_scale>,
        .max = 1e6,
        .fallback =
            [](const ModelConfig& c) {
              return static_cast<double>(1.4f / std::sqrt(static_cast<float>(c.n_layers)));
            }},
    // Models of one width, 256, were trained without it.
    Key{.gguf = "logit_scale",
        .number = at<&ModelConfig::logit_divisor>,
        .min = 1e-6,
        .max = 1e6,
        .fallback = [](const ModelConfig& c) { return c.dim / 256.0; }},
};
constexpr auto minicpm_keys = join(size_keys, rms_keys, rope_keys, expert_keys, minicpm_scale_keys);
constexpr auto keys =
    join(size_keys, rms_keys, rope_keys, expert_keys, shared_ffn_keys, scale_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         gated_tensors, expert_tensors, shared_expert_tensors, rope_factor_tensors);
constexpr auto minicpm_tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         gated_tensors, expert_tensors, rope_factor_tensors);
constexpr std::array harmless{
    Harmless{"rope.scaling.finetuned", "heads turn", 1.0},
};

// Experts are as wide as a network; a scale of 0 is none.
void derive(ModelConfig& c) {
  c.expert_ffn_dim = c.ffn_dim;
  if (c.embedding_scale == 0.0f) c.embedding_scale = 1.0f;
  if (c.residual_scale == 0.0f) c.residual_scale = 1.0f;
}

}  // namespace

// Granite: Llama with scales of embedding, attention, residuals and logits.
constinit const Architecture granite_row{
    .name = "granite",
    .model_types = "granite",
    .class_name = "GraniteForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_keys = harmless,
    .derive = derive,
};

constinit const Architecture granitemoe_row{
    .name = "granitemoe",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_keys = harmless,
    .derive = derive,
};

// MiniCPM: the same scales, of which files need not speak.
constinit const Architecture minicpm_row{
    .name = "minicpm",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = minicpm_keys,
    .tensors = minicpm_tensors,
    .derive = derive,
};

}  // namespace onepass::llm
