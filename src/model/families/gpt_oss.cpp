#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array window_keys{
    Key{.gguf = "attention.sliding_window",
        .json = "sliding_window",
        .count = at<&ModelConfig::window>,
        .max = max_context},
};
constexpr auto keys = join(size_keys, rms_keys, rope_keys, window_keys, mixture_keys);

// The norm in front of the experts has the name of one behind attention.
constexpr std::array norms{
    TensorRow{.gguf = "attn_norm",
              .hf = "input_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::attn_norm}}},
    TensorRow{.gguf = "post_attention_norm",
              .hf = "post_attention_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::ffn_norm}}},
};
constexpr std::array sinks{
    TensorRow{.gguf = "attn_sinks",
              .hf = "self_attn.sinks",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::sinks}},
              .cols = Extent::heads},
};
// With biases, all of them.
constexpr auto with_biases = [](auto rows) {
  for (TensorRow& row : rows) row.bias = Need::required;
  return rows;
};
constexpr auto attention = with_biases(attention_tensors<Need::required>);
constexpr auto experts = with_biases(expert_tensors);
constexpr auto tensors = join(model_tensors, output_norm_tensors, norms, sinks, attention, experts);

}  // namespace

// gpt-oss: a score of each head's own that has no value, a window in every second layer, a clamped
// gate, biases everywhere.
constinit const Architecture gpt_oss_row{
    .name = "gpt-oss",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .activation = Activation::clamped_silu,
    .window_pattern = true,
    .window_period = 2,
    .scaled_windows = true,
};

}  // namespace onepass::llm
