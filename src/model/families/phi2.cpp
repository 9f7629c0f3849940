#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array norms{
    TensorRow{.gguf = "output_norm",
              .hf = "model.final_layernorm",
              .where = Where::model,
              .form = TensorForm::vector,
              .model = &Weights::output_norm,
              .bias = Need::required},
    TensorRow{.gguf = "attn_norm",
              .hf = "input_layernorm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::attn_norm}},
              .bias = Need::required},
};
constexpr std::array output{
    model_tensors[0],
    with_bias(Need::required, model_tensors[1]),
};
constexpr auto keys = join(size_keys, layer_norm_keys, rope_keys);
constexpr auto tensors = join(
    output, norms,
    in_folder(attention_tensors<Need::usual, Need::required>, {{"attn_output", "self_attn.dense"}}),
    in_folder(plain_ffn_tensors<Need::required>, {{"ffn_up", "mlp.fc1"}, {"ffn_down", "mlp.fc2"}}));

}  // namespace

// Phi 1, 1.5 and 2: attention and network side by side behind one norm.
constinit const Architecture phi2_row{
    .name = "phi2",
    .model_types = "phi",
    .class_name = "PhiForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = parallel,
    .keys = keys,
    .tensors = tensors,
    .norm = NormKind::layer,
    .activation = Activation::gelu,
    .partial_rotary = true,
};

}  // namespace onepass::llm
