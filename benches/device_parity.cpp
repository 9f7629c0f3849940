// device_parity MODEL [DEVICE]: logits of a device (cuda:0) beside those of the CPU, fed the same
// tokens: 10 prompts of 64 tokens, as chunks and token by token.
//
// Prints the mean squared difference over the mean square (NMSE), how many positions have another
// most likely token although the CPU's two best are further apart than 6 times the rms difference
// (none may), and how many others have. Exit status 1 where a rule is broken.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "run/decoder.h"

namespace onepass {
namespace {

constexpr std::uint32_t prompts = 10, length = 64;
constexpr double gap_factor = 6.0, most_others = 0.04;

using Rows = std::vector<std::vector<float>>;

Result<llm::Decoder> open(const std::string& device_name, const std::string& name) {
  ONEPASS_ASSIGN(const Device device, Device::open(device_name));
  ONEPASS_ASSIGN(std::shared_ptr<const llm::Model> model, llm::Model::open(device, name));
  return llm::Decoder::create(model, {.context = length});
}

Status run(llm::Decoder& decoder, const std::vector<std::uint32_t>& tokens, bool one_by_one,
           Rows& rows) {
  ONEPASS_TRY(decoder.truncate(0));
  rows.clear();
  if (!one_by_one) {
    return decoder.score(tokens, [&](std::size_t, std::span<const float> logits) -> Status {
      rows.emplace_back(logits.begin(), logits.end());
      return {};
    });
  }
  for (const std::uint32_t token : tokens) {
    ONEPASS_TRY(decoder.append({&token, 1}));
    ONEPASS_ASSIGN(std::vector<float> logits, decoder.logits());
    rows.push_back(std::move(logits));
  }
  return {};
}

struct Count {
  double difference = 0.0, square = 0.0;
  std::size_t positions = 0, broken = 0, others = 0;

  void add(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0.0;
    std::size_t best = 0, second = 1, other = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = static_cast<double>(a[i]), e = static_cast<double>(b[i]) - x;
      sum += e * e;
      square += x * x;
      if (a[i] > a[best]) best = i;
      if (b[i] > b[other]) other = i;
    }
    second = best == 0 ? 1 : 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (i != best && a[i] > a[second]) second = i;
    }
    difference += sum;
    ++positions;
    if (best == other) return;
    const double gap = static_cast<double>(a[best]) - static_cast<double>(a[second]);
    ++(gap > gap_factor * std::sqrt(sum / static_cast<double>(a.size())) ? broken : others);
  }
};

Result<bool> compare(const std::string& name, const std::string& device_name) {
  ONEPASS_ASSIGN(llm::Decoder cpu, open("cpu", name));
  ONEPASS_ASSIGN(llm::Decoder device, open(device_name, name));
  bool kept = true;
  for (const bool one_by_one : {false, true}) {
    Count count;
    std::uint64_t state = 1;
    for (std::uint32_t p = 0; p < prompts; ++p) {
      std::vector<std::uint32_t> tokens(length);
      for (std::uint32_t& token : tokens) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        token = static_cast<std::uint32_t>((state >> 33) % cpu.model().config().vocab);
      }
      Rows ours, theirs;
      ONEPASS_TRY(run(cpu, tokens, one_by_one, ours));
      ONEPASS_TRY(run(device, tokens, one_by_one, theirs));
      for (std::size_t i = 0; i < ours.size(); ++i) count.add(ours[i], theirs[i]);
    }
    const double others = static_cast<double>(count.others) /
                          static_cast<double>(std::max<std::size_t>(count.positions, 1));
    const bool good = count.broken == 0 && others <= most_others;
    kept = kept && good;
    std::printf("%-32s %-12s %4zu positions  NMSE %.2e  broken %zu  others %zu (%.1f %%)  %s\n",
                name.c_str(), one_by_one ? "one by one" : "chunks", count.positions,
                count.difference / count.square, count.broken, count.others, 100.0 * others,
                good ? "kept" : "BROKEN");
  }
  return kept;
}

}  // namespace
}  // namespace onepass

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: device_parity MODEL [DEVICE]\n");
    return 2;
  }
  const onepass::Result<bool> kept = onepass::compare(argv[1], argc == 3 ? argv[2] : "cuda:0");
  if (!kept) std::fprintf(stderr, "device_parity: %s\n", kept.error().to_string().c_str());
  return kept && *kept ? 0 : 1;
}
