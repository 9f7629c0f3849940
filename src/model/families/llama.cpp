#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, softcap_keys, expert_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         gated_tensors, expert_tensors, rope_factor_tensors);

constexpr auto dense_keys = join(size_keys, rms_keys, rope_keys);
constexpr auto dense_tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         gated_tensors, rope_factor_tensors);

}  // namespace

// Llama, Mistral, SmolLM, TinyLlama; with experts Mixtral, whose experts are as wide as a network.
constinit const Architecture llama_row{
    .name = "llama",
    .model_types = "llama mistral",
    .class_name = "LlamaForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_keys = ignored_window,
    .derive = [](ModelConfig& c) { c.expert_ffn_dim = c.ffn_dim; },
};

// Ministral 3.
constinit const Architecture mistral3_row{
    .name = "mistral3",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .derive = [](ModelConfig& c) { c.expert_ffn_dim = c.ffn_dim; },
};

constinit const Architecture internlm2_row{
    .name = "internlm2",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = dense_keys,
    .tensors = dense_tensors,
};

// EXAONE 3.
constinit const Architecture exaone_row{
    .name = "exaone",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = dense_keys,
    .tensors = dense_tensors,
};

}  // namespace onepass::llm
