#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys =
    join(size_keys, in_json(layer_norm_keys, {{"attention.layer_norm_epsilon", "norm_epsilon"}}),
         rope_keys);
constexpr auto nemotron_keys = join(
    size_keys, in_json(layer_norm_keys, {{"attention.layer_norm_epsilon", "norm_eps"}}), rope_keys);
constexpr auto ffn = in_folder(plain_ffn_tensors<Need::required>,
                               {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}});
// Folders have them without the 1 that is added to all weights.
constexpr auto nemotron_norms = [] {
  auto rows = biased_norm_tensors;
  for (TensorRow& row : rows) row.transform = Transform::plus_one;
  return rows;
}();
constexpr auto tensors =
    join(model_tensors, biased_norm_tensors, attention_tensors<Need::usual, Need::required>, ffn);
constexpr auto nemotron_tensors =
    join(model_tensors, nemotron_norms, attention_tensors<Need::optional>,
         plain_ffn_tensors<Need::optional>);

}  // namespace

// StarCoder 2: layer norms, biases, GELU without a gate.
constinit const Architecture starcoder2_row{
    .name = "starcoder2",
    .model_types = "starcoder2",
    .class_name = "Starcoder2ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_keys = ignored_window,
    .norm = NormKind::layer,
    .activation = Activation::gelu,
};

// Nemotron: squared ReLU, part of a head turns.
constinit const Architecture nemotron_row{
    .name = "nemotron",
    .model_types = "nemotron",
    .class_name = "NemotronForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = nemotron_keys,
    .tensors = nemotron_tensors,
    .norm = NormKind::layer,
    .activation = Activation::relu2,
    .partial_rotary = true,
};

}  // namespace onepass::llm
