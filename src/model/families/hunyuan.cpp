#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto norms = in_folder(head_norm_tensors, {{"attn_q_norm", "self_attn.query_layernorm"},
                                                     {"attn_k_norm", "self_attn.key_layernorm"}});
constexpr auto keys = join(size_keys, rms_keys, rope_keys, mixture_keys, shared_ffn_keys);
constexpr auto tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>, norms,
         expert_tensors, shared_expert_tensors);

// A factor of the base for longer contexts, to a power that follows from the heads.
constexpr std::array alpha_keys{
    Key{.gguf = "rope.scaling.alpha",
        .number = at<&ModelConfig::rope, &RopeConfig::alpha>,
        .max = 1e6,
        .fallback = always<0>},
};
constexpr auto dense_keys = join(size_keys, rms_keys, rope_keys, alpha_keys);
constexpr auto dense_tensors =
    join(model_tensors, output_norm_tensors, norm_tensors, attention_tensors<Need::optional>, norms,
         gated_tensors, rope_factor_tensors);

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

constinit const Architecture hunyuan_dense_row{
    .name = "hunyuan-dense",
    .model_types = "hunyuan_v1_dense",
    .class_name = "HunYuanDenseV1ForCausalLM",
    .rope = ops::RopeMode::neox,
    .forward = transformer,
    .keys = dense_keys,
    .tensors = dense_tensors,
    .norm_after_rope = true,
    .derive =
        [](ModelConfig& c) {
          if (c.rope.alpha == 0.0f) return;
          const auto d = static_cast<float>(c.head_dim);
          c.rope.base *= std::pow(c.rope.alpha, d / (d - 2.0f));
          c.rope.alpha = 0.0f;  // the base has it now
        },
};

}  // namespace onepass::llm
