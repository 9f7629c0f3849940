// The options of how tokens are chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "llm/decoder.h"

namespace onepass::tool {

struct SamplingArgs {
  llm::SamplingOptions options{.temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
  std::string seed = "1";

  void add_to(CLI::App& app);
  // Reads the seed; refuses what is out of range.
  void check();
  // Says on stderr what was chosen.
  void tell() const;
};

}  // namespace onepass::tool
