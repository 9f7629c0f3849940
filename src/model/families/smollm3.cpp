#include "model/families/tables.h"

namespace onepass::llm {
namespace {

constexpr auto keys = join(size_keys, rms_keys, rope_keys);
constexpr auto tensors = join(model_tensors, output_norm_tensors, norm_tensors,
                              attention_tensors<Need::optional>, gated_tensors);

}  // namespace

// SmolLM 3: Llama whose heads do not turn in every fourth layer.
constinit const Architecture smollm3_row{
    .name = "smollm3",
    .model_types = "smollm3",
    .class_name = "SmolLM3ForCausalLM",
    .rope = ops::RopeMode::interleaved,
    .forward = transformer,
    .keys = keys,
    .tensors = tensors,
    .derive =
        [](ModelConfig& c) {
          for (std::uint32_t i = 0; i < c.n_layers; ++i) c.rope.still.push_back((i + 1) % 4 == 0);
        },
};

}  // namespace onepass::llm
