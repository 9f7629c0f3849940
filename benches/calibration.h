// A fixed integer loop, to compare machines and runs by.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace onepass_bench {

inline void calibration(benchmark::State& state) {
  for (auto _ : state) {
    std::uint64_t x = 88172645463325252u;
    for (int i = 0; i < 100000; ++i) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
    }
    benchmark::DoNotOptimize(x);
  }
}

inline void best_of_20(benchmark::internal::Benchmark* b) {
  b->Unit(benchmark::kMicrosecond)
      ->Repetitions(20)
      ->ReportAggregatesOnly(true)
      ->MinTime(0.02)
      ->ComputeStatistics("best", [](const std::vector<double>& v) {
        return *std::min_element(v.begin(), v.end());
      });
}

}  // namespace onepass_bench
