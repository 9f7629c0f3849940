#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys =
    join(size_keys, rms_keys, rope_keys, routed_keys, shared_count_keys, dense_layers_keys,
         gate_scale_keys, gate_norm_keys, gate_function_keys<2>);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         head_norm_tensors, gated_tensors, expert_tensors, shared_expert_tensors,
         expert_bias_tensors<Need::usual>);

}  // namespace

// dots.llm1: norms on heads, experts chosen by a sigmoid, some of them for every token, dense
// layers in front.
constinit const Architecture dots1_row{
    .name = "dots1",
    .model_types = "dots1",
    .class_name = "Dots1ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .derive = [](ModelConfig& c) { c.shared_ffn_dim = c.n_shared_experts * c.expert_ffn_dim; },
};

}  // namespace onepass::llm
