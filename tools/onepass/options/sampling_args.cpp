#include "sampling_args.h"

#include <charconv>
#include <cstdio>
#include <random>
#include <string_view>

#include "commands/common.h"
#include "common/terminal.h"
#include "io/reader.h"

namespace onepass::tool {

void SamplingArgs::add_to(CLI::App& app) {
  constexpr const char* group = "Sampling";
  app.add_option("--temp", options.temperature, "0: the most likely token")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-k", options.top_k, "keep the k most likely tokens, 0: all")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-p", options.top_p, "keep the most likely tokens up to this probability")
      ->capture_default_str()
      ->group(group);
  app.add_option("--min-p", options.min_p, "drop tokens below this share of the most likely one")
      ->capture_default_str()
      ->group(group);
  app.add_option("--seed", seed, "equal seeds give equal texts; or 'random'")
      ->capture_default_str()
      ->group(group);
}

void SamplingArgs::check() {
  if (seed == "random") {
    std::random_device random;
    options.seed = std::uint64_t{random()} << 32 | random();
  } else {
    const char* end = seed.data() + seed.size();
    const auto [at, error] = std::from_chars(seed.data(), end, options.seed);
    if (error != std::errc() || at != end) {
      refuse("--seed", "'" + seed + "', expected a number from 0 to 2^64 - 1 or 'random'");
    }
  }
  if (const Status status = llm::check(options); !status) {
    constexpr std::string_view named = "sampling: ";
    const std::string& text = status.error().message;
    refuse("sampling", text.starts_with(named) ? text.substr(named.size()) : text);
  }
}

void SamplingArgs::tell() const {
  if (options.is_greedy()) {
    details() << "sampling: the most likely token\n";
    return;
  }
  std::string text;
  for (const SamplingStep& step : chain()) {
    char part[48];
    std::snprintf(part, sizeof part, "%s%s %g", text.empty() ? "" : ", then ", step.name,
                  step.value);
    text += part;
  }
  details() << "sampling: " << text << "; seed " << options.seed << '\n';
}

std::string SamplingArgs::short_text() const {
  return options.is_greedy() ? "the most likely token" : "seed " + std::to_string(options.seed);
}

std::vector<SamplingStep> SamplingArgs::chain() const {
  std::vector<SamplingStep> steps;
  if (options.is_greedy()) return steps;
  steps.push_back({"temp", static_cast<double>(options.temperature)});
  if (options.top_k != 0) steps.push_back({"top-k", static_cast<double>(options.top_k)});
  if (options.top_p < 1.0f) steps.push_back({"top-p", static_cast<double>(options.top_p)});
  if (options.min_p > 0.0f) steps.push_back({"min-p", static_cast<double>(options.min_p)});
  return steps;
}

void add_stop_to(CLI::App& app, std::vector<std::string>& texts) {
  app.add_option("--stop", texts, "end the answer before this text; may be repeated")
      ->allow_extra_args(false);
}

void check_stop_texts(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text.empty()) refuse("--stop", "the text is empty");
    if (!io::is_utf8(text)) refuse("--stop", "the text is no UTF-8");
  }
}

}  // namespace onepass::tool
