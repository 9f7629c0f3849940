#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array window_keys{
    Key{.gguf = "attention.sliding_window",
        .json = "sliding_window",
        .count = at<&ModelConfig::window>,
        .max = max_context,
        .fallback = always<0>},
};
constexpr auto keys = join(size_keys, rms_keys, rope_keys, window_keys);
constexpr auto tensors = join(model_tensors, output_norm_tensors, attention_tensors<Need::optional>,
                              row_norm_tensors, post_norm_tensors, gated_tensors);

constexpr std::array harmless{
    Harmless{"rope.freq_base_swa", "all layers turn with one base"},
};

// Experts are as wide as a network.
constexpr auto moe_keys =
    join(size_keys, rms_keys, rope_keys, wide_mixture_keys, folder_gate_norm_keys<0>);
constexpr auto moe_tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         row_norm_tensors, expert_tensors);

}  // namespace

// OLMo 2 and 3: norms of whole queries and keys, and behind attention and network only.
constinit const Architecture olmo2_row{
    .name = "olmo2",
    .model_types = "olmo2 olmo3",
    .class_name = "Olmo2ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_keys = harmless,
    .window_pattern = true,
    .window_period = 4,
    .derive = [](ModelConfig& c) { c.rope.base_local = c.rope.base; },
};

// OLMoE: norms of whole queries and keys.
constinit const Architecture olmoe_row{
    .name = "olmoe",
    .model_types = "olmoe",
    .class_name = "OlmoeForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = moe_keys,
    .tensors = moe_tensors,
    .derive = [](ModelConfig& c) { c.expert_ffn_dim = c.ffn_dim; },
};

}  // namespace onepass::llm
