// Two sets of measured times: is the second slower?
//
//   const Comparison c = compare_times({{10.1, 10.3}}, {{9.9, 10.0}});
//   if (c.verdict(0.0) == Verdict::slower) ...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onepass/result.h"

namespace onepass::tool {

// Times of one run of a program; runs made in turns with those of the other program keep what
// changes from run to run apart from what the programs do.
using TimesOfRun = std::vector<double>;

enum class Verdict : std::uint8_t { slower, unclear, faster };
const char* name(Verdict verdict) noexcept;

// How many times as fast the second is: time before / time now, each the mean of the faster half of
// its times, with the middle 95 % of its bootstrap distribution. With several runs on both sides
// runs are drawn first, then times within them.
struct Comparison {
  double ratio = 0.0, low = 0.0, high = 0.0;
  // Slower or faster only where the whole interval is, by more than the tolerance (0.01: 1 %).
  Verdict verdict(double tolerance) const noexcept;
};
inline constexpr std::uint32_t resamples = 10000;
// Each side has a run, each run a time above 0. The same input gives the same result.
Comparison compare_times(const std::vector<TimesOfRun>& before, const std::vector<TimesOfRun>& now);

// What a file of onepass bench -o json tells about one test.
struct StoredTest {
  std::string test, model, backend, device, kv;
  std::uint64_t threads = 0;
  std::uint64_t tokens = 0;
  std::vector<TimesOfRun> runs;  // ns; one for each file
};
inline constexpr std::uint64_t max_bench_bytes = std::uint64_t{64} << 20;
// Tests of the same name in several files become the runs of one.
Result<std::vector<StoredTest>> read_bench(const std::vector<std::string>& paths);

}  // namespace onepass::tool
