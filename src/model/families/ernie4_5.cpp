#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys);
constexpr auto tensors = join(model_tensors, output_norm_tensors, norm_tensors,
                              not_paired(attention_tensors<Need::optional>), gated_tensors);

constexpr std::array step_keys{
    Key{.gguf = "interleave_moe_layer_step",
        .json = "moe_layer_interval",
        .count = at<&ModelConfig::expert_step>,
        .min = 1,
        .max = max_layers},
    Key{.json = "moe_num_shared_experts",
        .count = at<&ModelConfig::n_shared_experts>,
        .max = max_experts,
        .fallback = always<0>},
};
constexpr auto experts_of_folders =
    in_json(mixture_keys, {{"expert_count", "moe_num_experts"}, {"expert_used_count", "moe_k"}});
constexpr auto moe_keys =
    join(size_keys, rms_keys, rope_keys, experts_of_folders, shared_ffn_keys,
         in_json(dense_layers_keys, {{"leading_dense_block_count", "moe_layer_start_index"}}),
         step_keys);
constexpr auto moe_tensors =
    join(tensors, expert_tensors, shared_expert_tensors,
         in_folder(expert_bias_tensors<Need::optional>,
                   {{"exp_probs_b", "mlp.moe_statics.e_score_correction_bias"}}));

}  // namespace

// Ernie 4.5, and with experts in every so many layers.
constinit const Architecture ernie4_5_row{
    .name = "ernie4_5",
    .model_types = "ernie4_5",
    .class_name = "Ernie4_5ForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
};

constinit const Architecture ernie4_5_moe_row{
    .name = "ernie4_5-moe",
    .model_types = "ernie4_5_moe",
    .class_name = "Ernie4_5_MoeForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = moe_keys,
    .tensors = moe_tensors,
    .derive =
        [](ModelConfig& c) {
          if (c.expert_ffn_dim == 0) return;
          if (c.n_shared_experts == 0) {
            c.n_shared_experts = c.shared_ffn_dim / c.expert_ffn_dim;
            return;
          }
          c.shared_ffn_dim = c.n_shared_experts * c.expert_ffn_dim;
        },
};

}  // namespace onepass::llm
