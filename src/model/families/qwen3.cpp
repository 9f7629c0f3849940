#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, softcap_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         head_norm_tensors, gated_tensors, rope_factor_tensors);

constexpr std::array mixture_keys{
    Key{.gguf = "expert_count", .count = at<&ModelConfig::n_experts>, .min = 1, .max = max_experts},
    Key{.gguf = "expert_used_count", .count = at<&ModelConfig::n_experts_used>, .max = max_experts},
    Key{.gguf = "expert_feed_forward_length",
        .count = at<&ModelConfig::expert_ffn_dim>,
        .min = 1,
        .max = max_width,
        .fallback =
            [](const ModelConfig& c) {
              return c.n_experts_used > 0 ? double{1} * (c.ffn_dim / c.n_experts_used) : 0.0;
            }},
};
constexpr auto moe_keys = join(keys, mixture_keys);
constexpr auto moe_tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         head_norm_tensors, expert_tensors, rope_factor_tensors);

}  // namespace

// Qwen 3: a norm on each head of queries and keys before they turn.
constinit const Architecture qwen3_row{
    .name = "qwen3",
    .model_types = "qwen3",
    .class_name = "Qwen3ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_keys = ignored_window,
};

constinit const Architecture qwen3moe_row{
    .name = "qwen3moe",
    .class_name = "Qwen3MoeForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = moe_keys,
    .tensors = moe_tensors,
    .harmless_keys = ignored_window,
};

}  // namespace onepass::llm
