#include "model/architecture.h"

namespace onepass::llm {
namespace {

using ops::RopeMode;

constexpr Architecture table[] = {
    {.name = "llama",
     .model_types = "llama mistral",
     .rope = RopeMode::interleaved,
     .forward = llama,
     .experts = Experts::optional},
    {.name = "qwen2", .model_types = "qwen2", .rope = RopeMode::neox, .forward = llama},
    {.name = "qwen3",
     .model_types = "qwen3",
     .rope = RopeMode::neox,
     .forward = qwen3,
     .head_norms = true},
    {.name = "qwen3moe",
     .model_types = "",
     .rope = RopeMode::neox,
     .forward = qwen3,
     .head_norms = true,
     .experts = Experts::required},
    {.name = "gemma2",
     .model_types = "gemma2",
     .rope = RopeMode::neox,
     .forward = gemma,
     .post_norms = true,
     .partial_rotary = true,
     .window = 4096,
     .window_period = 2,
     .wide_layers = 46,
     .attention_softcap = 50.0f,
     .final_softcap = 30.0f},
    {.name = "gemma3",
     .model_types = "gemma3_text",
     .rope = RopeMode::neox,
     .forward = gemma,
     .head_norms = true,
     .post_norms = true,
     .partial_rotary = true,
     .window_period = 6,
     .wide_layers = 62},
    {.name = "phi3",
     .model_types = "phi3",
     .rope = RopeMode::neox,
     .forward = llama,
     .fused = true,
     .partial_rotary = true},
};

// A word of a list separated by spaces.
bool has_word(std::string_view list, std::string_view word) noexcept {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

}  // namespace

std::span<const Architecture> architectures() noexcept { return table; }

const Architecture* find_architecture(std::string_view name) noexcept {
  for (const Architecture& a : table) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

const Architecture* find_model_type(std::string_view model_type) noexcept {
  for (const Architecture& a : table) {
    if (has_word(a.model_types, model_type)) return &a;
  }
  return nullptr;
}

}  // namespace onepass::llm
