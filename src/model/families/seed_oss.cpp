#include "model/families/tables.h"

namespace onepass::llm {
namespace {

// The norm in front of the network has the name of one behind attention.
constexpr std::array norms{
    norm_tensors[0],
    TensorRow{.gguf = "post_attention_norm",
              .hf = "post_attention_layernorm",
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
    .model_types = "seed_oss",
    .class_name = "SeedOssForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
};

}  // namespace onepass::llm
