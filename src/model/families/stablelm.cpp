#include "model/families/layers.h"
#include "model/families/tables.h"

namespace onepass::llm {
namespace {

// Without a norm of its own the network stands beside attention.
constexpr auto norms = [] {
  auto rows = biased_norm_tensors;
  rows.back().need = Need::usual;
  return rows;
}();
constexpr auto head_norms =
    in_folder(each_head_norm_tensors, {{"attn_q_norm", "self_attn.q_layernorm.norms.{}"},
                                       {"attn_k_norm", "self_attn.k_layernorm.norms.{}"}});
constexpr auto keys = join(size_keys, layer_norm_keys, rope_keys);
constexpr auto tensors =
    join(model_tensors, norms, attention_tensors<Need::optional>, head_norms, gated_tensors);

Tensor stablelm(GraphSession& s, const ForwardArgs& a) {
  return a.weights.layers.front().ffn_norm ? transformer(s, a) : parallel(s, a);
}

}  // namespace

// StableLM: Llama with layer norms; part of a head turns.
constinit const Architecture stablelm_row{
    .name = "stablelm",
    .model_types = "stablelm",
    .class_name = "StableLmForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = stablelm,
    .keys = keys,
    .tensors = tensors,
    .norm = NormKind::layer,
    .partial_rotary = true,
};

}  // namespace onepass::llm
