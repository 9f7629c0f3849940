#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array window_keys{
    Key{.gguf = "attention.sliding_window",
        .count = at<&ModelConfig::window>,
        .max = max_context,
        .fallback = always<0>},
    Key{.gguf = "rope.freq_base_swa",
        .number = at<&ModelConfig::rope, &RopeConfig::base_local>,
        .min = 1.0,
        .max = 1e12,
        .fallback = rope_base_of_all},
};
constexpr auto keys = join(size_keys, rms_keys, rope_keys, window_keys);
constexpr auto tensors = join(model_tensors, output_norm_tensors, attention_tensors<Need::optional>,
                              row_norm_tensors, post_norm_tensors, gated_tensors);

}  // namespace

// OLMo 2 and 3: norms of whole queries and keys, and behind attention and network only.
constinit const Architecture olmo2_row{
    .name = "olmo2",
    .model_types = "olmo2",
    .class_name = "Olmo2ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .window_pattern = true,
    .window_period = 4,
};

}  // namespace onepass::llm
