#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array residual_keys{
    Key{.gguf = "use_parallel_residual", .flag = at<&ModelConfig::parallel_residual>},
};
constexpr auto keys = join(size_keys, layer_norm_keys, rope_keys, residual_keys);
constexpr auto tensors =
    join(model_tensors, biased_norm_tensors, fused_attention_tensors<Need::required>,
         plain_ffn_tensors<Need::required>);

Tensor gptneox(GraphSession& s, const ForwardArgs& a) {
  return a.config.parallel_residual ? parallel(s, a) : transformer(s, a);
}

}  // namespace

// GPT-NeoX, Pythia: attention and network side by side, or one after the other.
constinit const Architecture gptneox_row{
    .name = "gptneox",
    .rope = ops::RopeMode::neox,
    .forward = gptneox,
    .keys = keys,
    .tensors = tensors,
    .norm = NormKind::layer,
    .activation = Activation::gelu,
    .partial_rotary = true,
};

}  // namespace onepass::llm
