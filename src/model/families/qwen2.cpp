#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, softcap_keys);
constexpr auto tensors = join(model_tensors, output_norm_tensors, norm_tensors,
                              attention_tensors<Need::usual>, gated_tensors, rope_factor_tensors);

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

}  // namespace onepass::llm
