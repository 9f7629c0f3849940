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
  std::string seed = "1";  // or "random"

  void add_to(CLI::App& app);
  // Reads the seed; refuses what is out of range.
  void check();
  // What is done to the logits, in this order; nothing: the most likely token is taken. Steps that
  // change nothing are left out.
  std::vector<SamplingStep> chain() const;
  // With --verbose says it on stderr.
  void tell() const;
  // "seed 7", or that there is no choice.
  std::string short_text() const;
};

// --stop: texts that an answer ends before.
void add_stop_to(CLI::App& app, std::vector<std::string>& texts);
// Refuses an empty one and one that is no UTF-8.
void check_stop_texts(const std::vector<std::string>& texts);

}  // namespace onepass::tool
