#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, softcap_keys, expert_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         gated_tensors, expert_tensors, rope_factor_tensors);

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

}  // namespace onepass::llm
