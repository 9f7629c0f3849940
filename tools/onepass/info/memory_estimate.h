// What a model will need, before it is loaded.
#pragma once

#include <cstdint>
#include <string>

#include "model/config.h"
#include "onepass/device.h"

namespace onepass::tool {

// The cache a command is going to ask for.
struct CacheArgs {
  std::uint64_t context = 0;   // tokens; 0: not known, no cache is counted
  bool up_to_trained = false;  // no more than the model was trained on
  DType kv = DType::f16;
  const char* option = "";  // of the command, that sets the context
};

struct MemoryEstimate {
  std::uint64_t weights = 0;
  std::uint64_t context = 0;  // tokens
  std::uint64_t cache = 0;    // of the context
  std::uint64_t cache_per_token = 0;
  std::uint64_t scratch = 0;  // of passes with as many rows as the decoder takes; rather too much

  std::uint64_t total() const noexcept { return weights + cache + scratch; }
  // The largest context that fits, a multiple of 256; 0: not even that many tokens do.
  std::uint64_t context_for(std::uint64_t available) const noexcept;
};
MemoryEstimate estimate_memory(const llm::ModelConfig& config, std::uint64_t weight_bytes,
                               const CacheArgs& cache);

// Bytes that the device can still give; 0: unknown.
std::uint64_t available_bytes(const Device& device);

// Says it on one line: "13.1 MB weights, 2.1 MB cache for 512 tokens, ...".
std::string to_string(const MemoryEstimate& estimate);

// out_of_memory with all numbers, and what would fit, where there is too little.
Status check_memory(const MemoryEstimate& estimate, std::uint64_t available,
                    const std::string& device, const CacheArgs& cache);

}  // namespace onepass::tool
