#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys);
constexpr auto tensors = join(model_tensors, output_norm_tensors, norm_tensors,
                              attention_tensors<Need::optional>, gated_tensors);

constexpr std::array step_keys{
    Key{.gguf = "interleave_moe_layer_step",
        .count = at<&ModelConfig::expert_step>,
        .min = 1,
        .max = max_layers},
};
constexpr auto moe_keys = join(size_keys, rms_keys, rope_keys, mixture_keys, shared_ffn_keys,
                               dense_layers_keys, gate_scale_keys, step_keys);
constexpr auto moe_tensors =
    join(tensors, expert_tensors, shared_expert_tensors, expert_bias_tensors<Need::optional>);

}  // namespace

// Ernie 4.5, and with experts in every so many layers.
constinit const Architecture ernie4_5_row{
    .name = "ernie4_5",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
};

constinit const Architecture ernie4_5_moe_row{
    .name = "ernie4_5-moe",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = moe_keys,
    .tensors = moe_tensors,
};

}  // namespace onepass::llm
