#include "model/families/tables.h"

namespace onepass::llm {
namespace {

// The norm in front of the network has the name of one behind attention.
constexpr std::array norms{
    TensorRow{
        .gguf = "attn_norm", .form = TensorForm::vector, .into = {{&LayerWeights::attn_norm}}},
    TensorRow{.gguf = "post_attention_norm",
              .form = TensorForm::vector,
              .into = {{&LayerWeights::ffn_norm}}},
};
constexpr auto keys = join(size_keys, rms_keys, rope_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norms, attention_tensors<Need::usual>, gated_tensors);

}  // namespace

// Seed OSS: biases of queries, keys and values.
constinit const Architecture seed_oss_row{
    .name = "seed_oss",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
};

}  // namespace onepass::llm
