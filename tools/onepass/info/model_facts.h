// Sizes of a model that was loaded.
#pragma once

#include <cstdint>
#include <string>

#include "model/weights.h"

namespace onepass::tool {

struct ModelFacts {
  std::string type;  // "llama 1.5B Q4_0"; the format is that of most bytes
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;            // of all weights on the device
  std::uint64_t bytes_per_token = 0;  // that decoding one token reads
};
ModelFacts facts_of(const llm::Model& model);

}  // namespace onepass::tool
