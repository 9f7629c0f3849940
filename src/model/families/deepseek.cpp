#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, routed_keys, shared_count_keys,
                           dense_layers_keys, gate_scale_keys, folder_gate_norm_keys<0>);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         gated_tensors, expert_tensors, shared_expert_tensors);

constexpr auto bailing_keys = join(size_keys, rms_keys, rope_keys, mixture_keys, shared_count_keys,
                                   gate_scale_keys, gate_norm_keys);
constexpr auto bailing_tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         expert_tensors, shared_expert_tensors);

}  // namespace

// DeepSeek MoE, of the first generation: some experts for every token, some dense layers in front.
constinit const Architecture deepseek_row{
    .name = "deepseek",
    .model_types = "deepseek",
    .class_name = "DeepseekForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .derive = [](ModelConfig& c) { c.shared_ffn_dim = c.n_shared_experts * c.expert_ffn_dim; },
};

// Ling, of the first generation.
constinit const Architecture bailingmoe_row{
    .name = "bailingmoe",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = bailing_keys,
    .tensors = bailing_tensors,
    .derive = [](ModelConfig& c) { c.shared_ffn_dim = c.n_shared_experts * c.expert_ffn_dim; },
};

}  // namespace onepass::llm
