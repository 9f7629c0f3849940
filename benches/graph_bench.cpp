// Cost of the graph passes on one recorded decode token. `best` of 20 repetitions counts; compare
// it with `calibration`, a fixed integer loop, before comparing machines or runs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "calibration.h"
#include "graph/ancestor/greedy_order.h"
#include "graph/hazards.h"
#include "graph/memory.h"
#include "graph/schedule.h"
#include "support/model_programs.h"

namespace {

using namespace onepass::graph;  // NOLINT: a benchmark of this namespace
using onepass::test::ProgramBuilder;
using onepass_bench::best_of_20;
using onepass_bench::calibration;

const ProgramBuilder& moe_token() {
  static const ProgramBuilder program = onepass::test::qwen3_moe({.layers = 48}, true);
  return program;
}

const ProgramBuilder& dense_token() {
  static const ProgramBuilder program = onepass::test::llama_dense({.layers = 32});
  return program;
}

const ProgramBuilder& fifty_moe_tokens() {
  static const ProgramBuilder program = onepass::test::repeat(moe_token(), 50);
  return program;
}

// As many nodes as an exact DAG may have.
const ProgramBuilder& four_moe_tokens() {
  static const ProgramBuilder program = onepass::test::repeat(moe_token(), 4);
  return program;
}

const ProgramBuilder& placed_moe_token() {
  static const ProgramBuilder program = [] {
    HazardWorkspace workspace;
    Dag dag;
    dependencies(moe_token().program(), workspace, dag);
    return onepass::test::on_physical_ranges(
        moe_token(), place_scratch(moe_token().program(), dag, moe_token().items(), 256, true));
  }();
  return program;
}

void run_dependencies(benchmark::State& state, const ProgramBuilder& (*make)()) {
  const Program program = make().program();
  HazardWorkspace workspace;
  Dag dag;
  for (auto _ : state) {
    dependencies(program, workspace, dag);
    benchmark::DoNotOptimize(dag.preds.data());
  }
  state.counters["dispatches"] = program.size();
  state.counters["edges_found"] = dag.edges_found;
  state.counters["edges"] = static_cast<double>(dag.preds.size());
  state.counters["levels"] = dag.n_levels;
}

void run_level_order(benchmark::State& state) {
  const Program program = moe_token().program();
  HazardWorkspace workspace;
  Dag dag;
  dependencies(program, workspace, dag);
  for (auto _ : state) benchmark::DoNotOptimize(level_order(program, dag));
}

void run_greedy_order(benchmark::State& state) {
  const Program program = moe_token().program();
  for (auto _ : state) benchmark::DoNotOptimize(greedy_order(program, moe_token().movable()));
}

void run_group_tracker(benchmark::State& state) {
  const Program program = moe_token().program();
  GroupTracker tracker;
  std::size_t barriers = 0;
  for (auto _ : state) {
    barriers = 0;
    tracker.reset();
    for (std::uint32_t node = 0; node < program.size(); ++node) {
      const auto ranges = program.ranges_of(node);
      if (tracker.conflicts(ranges)) {
        ++barriers;
        tracker.reset();
      }
      tracker.add(ranges);
    }
  }
  state.SetItemsProcessed(state.iterations() * program.size());
  state.counters["barriers"] = static_cast<double>(barriers);
}

void run_place_scratch(benchmark::State& state, const ProgramBuilder& (*make)()) {
  const ProgramBuilder& builder = make();
  const Program program = builder.program();
  HazardWorkspace workspace;
  Dag dag;
  dependencies(program, workspace, dag);
  Placement placement;
  for (auto _ : state) {
    placement = place_scratch(program, dag, builder.items(), 256, true);
    benchmark::DoNotOptimize(placement.arena_bytes);
  }
  state.counters["items"] = static_cast<double>(builder.items().size());
  state.counters["arena_KiB"] = static_cast<double>(placement.arena_bytes) / 1024;
  state.counters["unaliased_KiB"] = static_cast<double>(placement.unaliased_bytes) / 1024;
}

const ProgramBuilder& two_sequences() {
  static const ProgramBuilder program = onepass::test::llama_sequences({.layers = 60}, 2);
  return program;
}

BENCHMARK(calibration)->Apply(best_of_20);
BENCHMARK_CAPTURE(run_dependencies, dense_32_layers, dense_token)->Apply(best_of_20);
BENCHMARK_CAPTURE(run_dependencies, moe_48_layers, moe_token)->Apply(best_of_20);
BENCHMARK_CAPTURE(run_dependencies, moe_48_layers_placed, placed_moe_token)->Apply(best_of_20);
BENCHMARK_CAPTURE(run_dependencies, moe_48_layers_x4, four_moe_tokens)->Apply(best_of_20);
BENCHMARK_CAPTURE(run_dependencies, moe_48_layers_x50, fifty_moe_tokens)->Apply(best_of_20);
BENCHMARK(run_level_order)->Apply(best_of_20);
BENCHMARK(run_greedy_order)->Apply(best_of_20);
BENCHMARK(run_group_tracker)->Apply(best_of_20);
BENCHMARK_CAPTURE(run_place_scratch, moe_48_layers, moe_token)->Apply(best_of_20);
BENCHMARK_CAPTURE(run_place_scratch, two_sequences_60_layers, two_sequences)->Apply(best_of_20);

}  // namespace
