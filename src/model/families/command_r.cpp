#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr std::array embedding{
    TensorRow{.gguf = "token_embd",
              .where = Where::model,
              .model = &Weights::embedding,
              .rows = Extent::vocab},
};
constexpr std::array norms{
    TensorRow{
        .gguf = "attn_norm", .form = TensorForm::vector, .into = {{&LayerWeights::attn_norm}}},
};
constexpr std::array scale_keys{
    Key{.gguf = "logit_scale",
        .number = at<&ModelConfig::logit_scale>,
        .max = 1e6,
        .fallback = always<0>},
};
constexpr auto keys = join(size_keys, layer_norm_keys, rope_keys, scale_keys);
constexpr auto tensors =
    join(embedding, output_norm_tensors, norms, attention_tensors<Need::optional>, gated_tensors);

}  // namespace

// Command R: attention and network side by side behind one norm, scaled logits.
constinit const Architecture command_r_row{
    .name = "command-r",
    .rope = ops::RopeMode::interleaved,
    .forward = parallel,
    .keys = keys,
    .tensors = tensors,
    .norm = NormKind::layer,
    .derive =
        [](ModelConfig& c) {
          if (c.logit_scale == 0.0f) c.logit_scale = 1.0f;
        },
};

}  // namespace onepass::llm
