#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto mixture = in_json(
    mixture_keys,
    {{"expert_count", "num_local_experts"}, {"expert_feed_forward_length", "intermediate_size"}});
constexpr auto experts = in_folder(
    expert_tensors,
    {{"ffn_gate_inp", "block_sparse_moe.gate"},
     {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1 block_sparse_moe.switch_mlp.gate_proj"},
     {"ffn_up_exps", "block_sparse_moe.experts.{}.w3 block_sparse_moe.switch_mlp.up_proj"},
     {"ffn_down_exps", "block_sparse_moe.experts.{}.w2 block_sparse_moe.switch_mlp.down_proj"}});
constexpr auto expert_bias =
    in_folder(expert_bias_tensors<Need::required>,
              {{"exp_probs_b", "block_sparse_moe.e_score_correction_bias"}});
constexpr auto keys = join(size_keys, rms_keys, rope_keys, mixture, gate_function_keys<2>);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::never>,
         row_norm_tensors, experts, expert_bias);

constexpr const char* no_bias =
    "the model has no biases; llama.cpp loads such tensors and does not add them";
constexpr std::array ignored_biases{
    Harmless{"*.attn_q.bias", no_bias},
    Harmless{"*.attn_k.bias", no_bias},
    Harmless{"*.attn_v.bias", no_bias},
};

}  // namespace

// MiniMax M2: norms of whole queries and keys, experts chosen by a sigmoid.
constinit const Architecture minimax_m2_row{
    .name = "minimax-m2",
    .model_types = "minimax_m2",
    .class_name = "MiniMaxM2ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_tensors = ignored_biases,
    .partial_rotary = true,
};

}  // namespace onepass::llm
