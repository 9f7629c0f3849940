// Recording: time and heap allocations of one encode, and of one replay.
#include <benchmark/benchmark.h>

#include "calibration.h"
#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "support/heap.h"

namespace {

using namespace onepass;

void nothing(const KernelArgs&) noexcept {}

struct Fixture {
  Device device = *Device::open("null");
  GraphExecutor executor{device};
  std::vector<Buffer> buffers;
  KernelId kernel = *device.kernels().add({.name = "four", .slots = "iiio", .cpu = nothing});
  Dispatch dispatch = make_dispatch(Op::custom);

  Fixture() {
    for (int i = 0; i < 16; ++i) buffers.push_back(*device.allocate(4096));
    dispatch.kernel = kernel;
    for (std::size_t i = 0; i < 4; ++i) dispatch.bind(buffers[i].view(), Access::read);
  }
};

BENCHMARK(onepass_bench::calibration)->Apply(onepass_bench::best_of_20);

// A recorded pass of 500 dispatches of four views, storage warm: ns and heap allocations each.
void encode_recorded(benchmark::State& state) {
  Fixture f;
  constexpr int n = 500;
  std::uint64_t counted = 0, passes = 0;
  GraphSession s = f.executor.begin_recorded();
  for (int warm = 0; warm < 3; ++warm) {
    for (int i = 0; i < n; ++i) {
      f.dispatch.views[3] = f.buffers[static_cast<std::size_t>(4 + i % 12)].view();
      s.encode(f.dispatch);
    }
    s = f.executor.begin_recorded();
  }
  for (auto _ : state) {
    const std::uint64_t before = test::heap_allocations();
    for (int i = 0; i < n; ++i) {
      f.dispatch.views[3] = f.buffers[static_cast<std::size_t>(4 + i % 12)].view();
      s.encode(f.dispatch);
    }
    counted += test::heap_allocations() - before;
    ++passes;
    state.PauseTiming();
    if (!s.status()) state.SkipWithError("encode failed");
    s = f.executor.begin_recorded();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(passes) * n);
  state.counters["ns_per_dispatch"] =
      benchmark::Counter(static_cast<double>(passes) * n * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["allocations_per_dispatch"] =
      static_cast<double>(counted) / static_cast<double>(passes) / n;
}
BENCHMARK(encode_recorded)->Apply(onepass_bench::best_of_20);

// Every dispatch checked for a barrier as it comes, as a direct encoder does.
void encode_direct(benchmark::State& state) {
  Fixture f;
  constexpr int n = 500;
  CommandEncoder encoder(f.device);
  for (auto _ : state) {
    for (int i = 0; i < n; ++i) {
      f.dispatch.views[3] = f.buffers[static_cast<std::size_t>(4 + i % 12)].view();
      encoder.encode(f.dispatch);
    }
    state.PauseTiming();
    if (!encoder.commit_and_wait()) state.SkipWithError("commit failed");
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * n);
}
BENCHMARK(encode_direct)->Apply(onepass_bench::best_of_20);

// Host work of one replay: the null device runs nothing.
void replay(benchmark::State& state) {
  Fixture f;
  GraphSession s = f.executor.begin_recorded();
  for (int i = 0; i < 500; ++i) {
    f.dispatch.views[3] = f.buffers[static_cast<std::size_t>(4 + i % 12)].view();
    s.encode(f.dispatch);
  }
  const Result<Plan> plan = s.compile();
  if (!plan || !plan->run()) state.SkipWithError("compile failed");
  const std::uint64_t before = test::heap_allocations();
  for (auto _ : state) {
    if (!plan->run()) state.SkipWithError("run failed");
  }
  state.counters["allocations_per_run"] = static_cast<double>(test::heap_allocations() - before) /
                                          static_cast<double>(state.iterations());
}
BENCHMARK(replay)->Apply(onepass_bench::best_of_20);

}  // namespace
