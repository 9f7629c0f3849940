#include "memory_estimate.h"

#include <algorithm>
#include <bit>

#include "commands/common.h"
#include "machine/device_details.h"
#include "run/decoder.h"

namespace onepass::tool {
namespace {

constexpr std::uint64_t context_step = 256;

}  // namespace

std::uint64_t MemoryEstimate::context_for(std::uint64_t available) const noexcept {
  const std::uint64_t rest = available - std::min(available, weights + scratch);
  const std::uint64_t tokens = rest / std::max<std::uint64_t>(cache_per_token, 1);
  return tokens / context_step * context_step;
}

MemoryEstimate estimate_memory(const llm::ModelConfig& c, std::uint64_t weight_bytes,
                               const CacheArgs& cache) {
  MemoryEstimate e;
  e.weights = weight_bytes;
  e.context = std::min<std::uint64_t>(cache.context, llm::max_context);
  if (cache.up_to_trained) e.context = std::min<std::uint64_t>(e.context, c.context);
  const std::uint64_t element = info(cache.kv).block_bytes;
  const std::uint64_t kv = std::uint64_t{c.n_kv_heads} * c.head_dim;
  for (std::uint32_t i = 0; i < c.cache_layers(); ++i) {
    e.cache_per_token += 2 * std::uint64_t{c.kv_heads_of(i)} * c.head_dim_of(i) * element;
  }
  e.cache = e.context * e.cache_per_token;
  // Rows of f32 that live at once: two hidden ones with either attention's or the feed-forward
  // network's.
  const std::uint64_t rows =
      e.context == 0 ? llm::max_chunk_rows
                     : std::bit_ceil(std::min<std::uint64_t>(e.context, llm::max_chunk_rows));
  const std::uint64_t attention = 2 * (std::uint64_t{c.n_heads} * c.head_dim + kv);
  const std::uint64_t experts =
      std::uint64_t{c.n_experts_used} * (2 * std::uint64_t{c.expert_ffn_dim} + c.dim);
  const std::uint64_t widest = std::max({attention, 2 * std::uint64_t{c.ffn_dim}, experts});
  e.scratch = rows * (2 * std::uint64_t{c.dim} + widest) * sizeof(float) +
              std::uint64_t{c.vocab} * sizeof(float);
  return e;
}

std::uint64_t available_bytes(const Device& device) {
  const DeviceInfo& info = device.info();
  if (const std::uint64_t free = free_bytes(device); free != 0 || info.unified_memory) return free;
  return info.memory_bytes - std::min(info.memory_bytes, device.live_bytes());
}

std::string to_string(const MemoryEstimate& e) {
  const std::string cache = e.context == 0 ? ""
                                           : show_bytes(e.cache) + " cache for " +
                                                 std::to_string(e.context) + " tokens, ";
  return show_bytes(e.weights) + " weights, " + cache + show_bytes(e.scratch) + " scratch";
}

Status check_memory(const MemoryEstimate& e, std::uint64_t available, const std::string& device,
                    const CacheArgs& cache) {
  if (available == 0 || e.total() <= available) return {};
  std::string text = "the model needs about " + show_bytes(e.total()) + " (" + to_string(e) +
                     "), " + show_bytes(available) + " are available on " + device;
  const std::uint64_t fits = e.context_for(available);
  if (e.weights > available) {
    text += "; the weights alone do not fit";
  } else if (fits > 0 && fits < e.context) {
    text += "; a context of " + std::to_string(fits) + " tokens fits";
    if (*cache.option != '\0')
      text += std::string(": ") + cache.option + " " + std::to_string(fits);
  }
  if (device != "cpu" && device != "null") text += "; --device cpu uses the host's memory";
  return fail(ErrorCode::out_of_memory, text + "; --force tries anyway");
}

}  // namespace onepass::tool
