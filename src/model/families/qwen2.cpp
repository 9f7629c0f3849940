#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, softcap_keys);
constexpr auto tensors = join(model_tensors, output_norm_tensors, norm_tensors,
                              attention_tensors<Need::usual>, gated_tensors, rope_factor_tensors);

// Of the expert that every token uses, by a gate of its own.
constexpr std::array shared_router_tensors{
    TensorRow{.gguf = "ffn_gate_inp_shexp",
              .hf = "mlp.shared_expert_gate",
              .where = Where::shared_layers,
              .into = {{&LayerWeights::shared_router, Extent::one}},
              .plain = true},
};
constexpr auto shared_tensors =
    in_folder(shared_expert_tensors, {{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                      {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                      {"ffn_down_shexp", "mlp.shared_expert.down_proj"}});
constexpr std::array shared_keys{
    Key{.gguf = "expert_shared_feed_forward_length",
        .json = "shared_expert_intermediate_size",
        .count = at<&ModelConfig::shared_ffn_dim>,
        .min = 1,
        .max = max_width,
        .fallback = [](const ModelConfig& c) { return double{1} * c.ffn_dim; }},
};
constexpr auto moe_keys = join(keys, mixture_keys, shared_keys, folder_gate_norm_keys<0>);
constexpr auto moe_tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::usual>,
         expert_tensors, shared_tensors, shared_router_tensors);

// Files of it need not say how norms are kept from 0.
constexpr std::array lenient_rms_keys{
    Key{.gguf = "attention.layer_norm_rms_epsilon",
        .number = at<&ModelConfig::norm_eps>,
        .max = 1.0,
        .fallback = always<0>},
};
constexpr auto vl_keys = join(size_keys, lenient_rms_keys, rope_keys);

}  // namespace

// Qwen 2 and 2.5: biases of queries, keys and values.
constinit const Architecture qwen2_row{
    .name = "qwen2",
    .model_types = "qwen2",
    .class_name = "Qwen2ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_keys = ignored_window,
};

constinit const Architecture qwen2moe_row{
    .name = "qwen2moe",
    .model_types = "qwen2_moe",
    .class_name = "Qwen2MoeForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = moe_keys,
    .tensors = moe_tensors,
    .harmless_keys = ignored_window,
};

// The text half of Qwen 2 and 2.5 VL.
constinit const Architecture qwen2vl_row{
    .name = "qwen2vl",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = vl_keys,
    .tensors = tensors,
    .harmless_keys = ignored_window,
    .rope_sections = true,
};

}  // namespace onepass::llm
