#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys, mixture_keys, shared_ffn_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>,
         head_norm_tensors, expert_tensors, shared_expert_tensors);

}  // namespace

// Hunyuan: heads of queries and keys turn before their norms.
constinit const Architecture hunyuan_moe_row{
    .name = "hunyuan-moe",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .norm_after_rope = true,
};

}  // namespace onepass::llm
