#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, softcap_keys,
                           in_json(expert_keys, {{"expert_count", "num_local_experts"}}));
constexpr auto mixtral_experts = in_folder(
    expert_tensors,
    {{"ffn_gate_inp", "block_sparse_moe.gate"},
     {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1 block_sparse_moe.switch_mlp.gate_proj"},
     {"ffn_up_exps", "block_sparse_moe.experts.{}.w3 block_sparse_moe.switch_mlp.up_proj"},
     {"ffn_down_exps", "block_sparse_moe.experts.{}.w2 block_sparse_moe.switch_mlp.down_proj"}});
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         gated_tensors, mixtral_experts, rope_factor_tensors);

constexpr auto dense_keys = join(size_keys, rms_keys, rope_keys);
constexpr auto dense_tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         gated_tensors, rope_factor_tensors);

constexpr auto plain_tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         plain_ffn_tensors<Need::optional>, rope_factor_tensors);

}  // namespace

// Llama, Mistral, SmolLM, TinyLlama; with experts Mixtral, whose experts are as wide as a network.
constinit const Architecture llama_row{
    .name = "llama",
    .model_types = "llama mistral",
    .class_name = "LlamaForCausalLM",
    .mixture_type = "mixtral",
    .mixture_class = "MixtralForCausalLM",
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

// Arcee: squared ReLU without a gate.
constinit const Architecture arcee_row{
    .name = "arcee",
    .model_types = "arcee",
    .class_name = "ArceeForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = dense_keys,
    .tensors = plain_tensors,
    .activation = Activation::relu2,
};

}  // namespace onepass::llm
