#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, mixture_keys, shared_count_keys,
                           dense_layers_keys, gate_scale_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         gated_tensors, expert_tensors, shared_expert_tensors);

}  // namespace

// DeepSeek MoE, of the first generation: some experts for every token, some dense layers in front.
constinit const Architecture deepseek_row{
    .name = "deepseek",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .derive =
        [](ModelConfig& c) {
          c.gate.renormalise = false;
          c.shared_ffn_dim = c.n_shared_experts * c.expert_ffn_dim;
        },
};

}  // namespace onepass::llm
