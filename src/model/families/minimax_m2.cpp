#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, mixture_keys, gate_function_keys<2>);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::never>,
         row_norm_tensors, expert_tensors, expert_bias_tensors<Need::required>);

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
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .harmless_tensors = ignored_biases,
    .partial_rotary = true,
};

}  // namespace onepass::llm
