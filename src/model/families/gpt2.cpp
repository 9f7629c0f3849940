#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array position_tensors{
    TensorRow{.gguf = "position_embd",
              .where = Where::model,
              .model = &Weights::positions,
              .rows = Extent::context},
};
constexpr auto keys = join(size_keys, layer_norm_keys);
constexpr auto tensors =
    join(model_tensors, position_tensors, biased_norm_tensors,
         fused_attention_tensors<Need::required>, plain_ffn_tensors<Need::required>);

}  // namespace

// GPT-2: learned positions, layer norms, biases, GELU without a gate.
constinit const Architecture gpt2_row{
    .name = "gpt2",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .norm = NormKind::layer,
    .activation = Activation::gelu,
};

}  // namespace onepass::llm
