// The options of how tokens are chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "run/decoder.h"

namespace onepass::tool {

// One step of the choice, as its option is called.
struct SamplingStep {
  const char* name;
  double value;
};

struct SamplingArgs {
  llm::SamplingOptions options{.temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f};
  std::string seed = "1";

  void add_to(CLI::App& app);
  // Reads the seed; refuses what is out of range.
  void check();
  // What is done to the logits, in this order; nothing: the most likely token is taken. Steps that
  // change nothing are left out.
  std::vector<SamplingStep> chain() const;
  // Says it on stderr.
  void tell() const;
};

}  // namespace onepass::tool
