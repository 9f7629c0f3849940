#include "model/families/tables.h"

namespace onepass::llm {
namespace {

// One tensor in most files, three in some.
constexpr TensorRow apart(std::string_view gguf, Linear LayerWeights::*into, Extent rows) {
  return {.gguf = gguf, .into = {{into, rows}}, .need = Need::optional, .bias = Need::optional};
}
constexpr std::array attention{
    fused_attention_tensors<Need::optional>[0],
    apart("attn_q", &LayerWeights::q, Extent::queries),
    apart("attn_k", &LayerWeights::k, Extent::keys),
    apart("attn_v", &LayerWeights::v, Extent::keys),
    attn_output,
};

constexpr auto keys = join(size_keys, rms_keys, rope_keys, softcap_keys);
constexpr auto tensors = join(model_tensors, output_norm_tensors, norm_tensors, attention,
                              fused_gate_tensors, rope_factor_tensors);

constexpr auto moe_keys = join(size_keys, rms_keys, rope_keys, wide_mixture_keys);
constexpr std::array moe_output{
    model_tensors[0],
    with_bias(Need::required, model_tensors[1]),
};
constexpr auto moe_tensors =
    join(moe_output, biased_norm_tensors, attention_tensors<Need::optional, Need::required>,
         expert_tensors, rope_factor_tensors);

}  // namespace

// Phi 3 and 4: part of a head may turn; gate and up are rows of one tensor.
constinit const Architecture phi3_row{
    .name = "phi3",
    .model_types = "phi3",
    .class_name = "Phi3ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_keys = ignored_window,
    .partial_rotary = true,
};

// Phi 3.5 MoE, as llama.cpp runs it: norms without a mean, with a bias.
constinit const Architecture phimoe_row{
    .name = "phimoe",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = moe_keys,
    .tensors = moe_tensors,
    .harmless_keys = ignored_window,
    .partial_rotary = true,
    .derive = [](ModelConfig& c) { c.expert_ffn_dim = c.ffn_dim; },
};

}  // namespace onepass::llm
