// What a launch, a submission and a wait cost on the CPU backend.
//
// Chain: 500 launches of two tiles, each waiting for the one before, on N threads: as one
// submission, and as 500 submissions with a wait each. `median` and `best` of 20 repetitions, per
// launch; compare them with `calibration`, a fixed integer loop, before comparing machines or runs.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/cpu.h"
#include "calibration.h"
#include "onepass/backends/cpu.h"
#include "support/recordings.h"

namespace onepass {
namespace {

constexpr std::uint32_t n_launches = 500;

void nothing(const KernelArgs&) noexcept {}
constexpr KernelRow nothing_row{.name = "nothing", .code = nothing};

std::unique_ptr<Backend> open(std::uint32_t threads) {
  DeviceOptions options;
  options.backend = {CpuOptions{.threads = threads}};
  return make_cpu_backend(options);
}

void count_launches(benchmark::State& state) {
  state.counters["per_launch"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * n_launches,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void run_chain(benchmark::State& state, const KernelRow& row) {
  const auto backend = open(static_cast<std::uint32_t>(state.range(0)));
  const Allocation memory =
      backend->allocate(2 * testing::cell_bytes, MemoryKind::device, true).value();
  {
    const testing::OrderedRecording recording = testing::make_recording(
        testing::chain_program(n_launches, 2), memory, OrderKind::edges, row);
    testing::OrderedRecording reduced = recording;
    reduced.preds.clear();
    for (std::uint32_t i = 0; i < n_launches; ++i) {
      reduced.pred_offsets[i + 1] = i;
      if (i > 0) reduced.preds.push_back(i - 1);
    }
    const auto recorded = testing::record(*backend, reduced).value();
    Completion completion;
    for (auto _ : state) {
      if (!backend->submit(*recorded, {}, completion)) state.SkipWithError("submit");
      backend->wait(completion);
    }
    count_launches(state);
  }
  backend->release(memory);
}

void chain_one_submission(benchmark::State& state) { run_chain(state, nothing_row); }
void hash_chain_one_submission(benchmark::State& state) { run_chain(state, testing::hash_row); }

void chain_submission_per_launch(benchmark::State& state) {
  const auto backend = open(static_cast<std::uint32_t>(state.range(0)));
  const auto recorded = testing::record(*backend, testing::one_launch(nothing_row, 2)).value();
  Completion completion;
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < n_launches; ++i) {
      if (!backend->submit(*recorded, {}, completion)) state.SkipWithError("submit");
      backend->wait(completion);
    }
  }
  count_launches(state);
}

void one_and_two_threads(benchmark::internal::Benchmark* b) {
  b->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime()->Apply(onepass_bench::best_of_20);
}

BENCHMARK(onepass_bench::calibration)->Apply(onepass_bench::best_of_20);
BENCHMARK(chain_one_submission)->Apply(one_and_two_threads);
BENCHMARK(hash_chain_one_submission)->Apply(one_and_two_threads);
BENCHMARK(chain_submission_per_launch)->Apply(one_and_two_threads);

}  // namespace
}  // namespace onepass
