#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys);
constexpr auto post_norms = in_folder(
    post_norm_tensors,
    {{"post_attention_norm", "post_self_attn_layernorm"}, {"post_ffw_norm", "post_mlp_layernorm"}});
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors,
         not_paired(attention_tensors<Need::optional>), post_norms, fused_gate_tensors);

// The norm in front of the network has the name of one behind attention.
constexpr std::array moe_norms{
    norm_tensors[0],
    TensorRow{.gguf = "post_attention_norm",
              .hf = "post_attention_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::ffn_norm}}},
    TensorRow{.gguf = "attn_q_norm",
              .hf = "self_attn.q_norm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::q_norm}},
              .cols = Extent::head,
              .need = Need::optional},
    TensorRow{.gguf = "attn_k_norm",
              .hf = "self_attn.k_norm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::k_norm}},
              .cols = Extent::head,
              .need = Need::optional},
};
constexpr std::array prediction_keys{
    Key{.gguf = "nextn_predict_layers",
        .json = "num_nextn_predict_layers",
        .count = at<&ModelConfig::n_prediction_layers>,
        .max = 16,
        .fallback = always<0>},
};
constexpr auto moe_keys =
    join(size_keys, rms_keys, rope_keys, routed_keys, shared_count_keys, dense_layers_keys,
         gate_scale_keys, gate_function_keys<2>, gate_norm_keys, prediction_keys);
constexpr auto moe_tensors =
    join(model_tensors, output_norm_tensors, moe_norms, attention_tensors<Need::usual>,
         gated_tensors, expert_tensors, shared_expert_tensors, expert_bias_tensors<Need::usual>);

}  // namespace

// GLM 4: norms before and behind attention and network, part of a head turns.
constinit const Architecture glm4_row{
    .name = "glm4",
    .model_types = "glm4",
    .class_name = "Glm4ForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .rope_sections = true,
    .partial_rotary = true,
};

// GLM 4.5: experts chosen by a sigmoid, one for every token, layers behind the last that predict.
constinit const Architecture glm4moe_row{
    .name = "glm4moe",
    .model_types = "glm4_moe",
    .class_name = "Glm4MoeForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = moe_keys,
    .tensors = moe_tensors,
    .rope_sections = true,
    .partial_rotary = true,
    .derive = [](ModelConfig& c) { c.shared_ffn_dim = c.n_shared_experts * c.expert_ffn_dim; },
};

}  // namespace onepass::llm
