#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array window_keys{
    Key{.gguf = "attention.sliding_window",
        .json = "sliding_window",
        .count = at<&ModelConfig::window>,
        .max = max_context,
        .fallback = always<4096>},
    Key{.gguf = "rope.freq_base_swa",
        .number = at<&ModelConfig::rope, &RopeConfig::base_local>,
        .min = 1.0,
        .max = 1e12,
        .fallback = rope_base_of_all},
};
constexpr auto keys = join(size_keys, rms_keys, rope_keys, window_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, attention_tensors<Need::optional>, head_norm_tensors,
         post_norm_tensors, gated_tensors, rope_factor_tensors);

}  // namespace

// EXAONE 4: norms behind attention and network and on heads. The model of 64 layers has windows in
// three of four layers, and heads turn in these only.
constinit const Architecture exaone4_row{
    .name = "exaone4",
    .model_types = "exaone4",
    .class_name = "Exaone4ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .window_pattern = true,
    .window_period = 4,
    .scaled_windows = true,
    .derive =
        [](ModelConfig& c) {
          if (c.n_layers != 64) {
            c.window = 0;
            c.local.clear();
          }
          for (const std::uint8_t local : c.local) c.rope.still.push_back(local == 0);
        },
};

}  // namespace onepass::llm
