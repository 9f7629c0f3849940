#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array embedding{
    TensorRow{.gguf = "token_embd",
              .hf = "model.embed_tokens",
              .where = Where::model,
              .model = &Weights::embedding,
              .rows = Extent::vocab},
};
constexpr std::array norms{
    norm_tensors[0],
};
constexpr std::array scale_keys{
    Key{.gguf = "logit_scale",
        .json = "logit_scale",
        .number = at<&ModelConfig::logit_scale>,
        .max = 1e6,
        .fallback = always<0>},
};
constexpr auto keys = join(size_keys, layer_norm_keys, rope_keys, scale_keys);
constexpr auto tensors =
    join(embedding, output_norm_tensors, norms, not_paired(attention_tensors<Need::optional>),
         each_head_norm_tensors, gated_tensors);

constexpr std::array window_keys{
    Key{.gguf = "logit_scale",
        .json = "logit_scale",
        .number = at<&ModelConfig::logit_scale>,
        .max = 1e6},
    Key{.gguf = "attention.sliding_window",
        .json = "sliding_window",
        .count = at<&ModelConfig::window>,
        .min = 1,
        .max = max_context},
};
constexpr auto keys2 = join(size_keys, layer_norm_keys, rope_keys, window_keys);
constexpr auto tensors2 = join(embedding, output_norm_tensors, norms,
                               not_paired(attention_tensors<Need::optional>), gated_tensors);
constexpr std::array harmless2{
    Harmless{"rope.freq_base_swa", "all heads that turn do so alike"},
};

void derive(ModelConfig& c) {
  if (c.logit_scale == 0.0f) c.logit_scale = 1.0f;
}

}  // namespace

// Command R: attention and network side by side behind one norm, scaled logits.
constinit const Architecture command_r_row{
    .name = "command-r",
    .model_types = "cohere",
    .class_name = "CohereForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = parallel,
    .keys = keys,
    .tensors = tensors,
    .norm = NormKind::layer,
    .derive = derive,
};

// Command R7B and A: windows in three of four layers, and heads turn in these only.
constinit const Architecture cohere2_row{
    .name = "cohere2",
    .model_types = "cohere2",
    .class_name = "Cohere2ForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = parallel,
    .keys = keys2,
    .tensors = tensors2,
    .harmless_keys = harmless2,
    .norm = NormKind::layer,
    .window_pattern = true,
    .window_period = 4,
    .scaled_windows = true,
    .derive =
        [](ModelConfig& c) {
          derive(c);
          for (const std::uint8_t local : c.local) c.rope.still.push_back(local == 0);
        },
};

}  // namespace onepass::llm
