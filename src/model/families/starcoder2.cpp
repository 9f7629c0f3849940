#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, layer_norm_keys, rope_keys);
constexpr auto tensors =
    join(model_tensors, biased_norm_tensors, attention_tensors<Need::usual>, plain_ffn_tensors);

}  // namespace

// StarCoder 2: layer norms, biases, GELU without a gate.
constinit const Architecture starcoder2_row{
    .name = "starcoder2",
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
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .norm = NormKind::layer,
    .activation = Activation::relu2,
    .partial_rotary = true,
};

}  // namespace onepass::llm
