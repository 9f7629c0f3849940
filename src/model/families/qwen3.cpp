#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, softcap_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         head_norm_tensors, gated_tensors, rope_factor_tensors);

constexpr auto moe_keys = join(keys, mixture_keys, folder_gate_norm_keys<1>);
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
    .model_types = "qwen3_moe",
    .class_name = "Qwen3MoeForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = moe_keys,
    .tensors = moe_tensors,
    .harmless_keys = ignored_window,
};

// The text half of Qwen 3 VL.
constinit const Architecture qwen3vl_row{
    .name = "qwen3vl",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .rope_sections = true,
};

constinit const Architecture qwen3vlmoe_row{
    .name = "qwen3vlmoe",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = moe_keys,
    .tensors = moe_tensors,
    .rope_sections = true,
};

}  // namespace onepass::llm
