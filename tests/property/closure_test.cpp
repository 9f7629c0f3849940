// Sharing scratch bytes adds no order: on the bytes really used, every plan has the dependencies of
// its program, and arenas stay close to those of level-aware placement.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>

#include "backends/null/null.h"
#include "core/device_state.h"
#include "graph/plan_state.h"
#include "property/bench.h"
#include "support/bitmap_oracle.h"
#include "support/level_aware_arena.h"
#include "support/model_programs.h"

namespace onepass::property::closure_test {
namespace {

using test::BitRows;
using testing::OrderedRecording;

// Closure over the nodes of the program (dispatches and fences), byte by byte, before placement.
BitRows virtual_closure(const GraphSpec& graph, std::vector<bool>& is_fence) {
  std::vector<graph::NodeKind> kinds;
  std::vector<std::uint32_t> offsets{0};
  std::vector<graph::Range> ranges;
  for (const OpSpec& op : graph.ops) {
    if (op.type == OpType::barrier) continue;
    is_fence.push_back(op.type == OpType::fence);
    kinds.push_back(is_fence.back() ? graph::NodeKind::fence : graph::NodeKind::dispatch);
    for (std::uint32_t i = 0; i < op.n; ++i) {
      const Place& p = op.places[i];
      if (graph.is_immutable(p)) continue;
      const std::uint64_t lo = graph.first_byte(p);
      ranges.push_back({lo, lo + p.bytes, graph.buffers[p.buffer].memory, writes(op.access[i])});
    }
    offsets.push_back(static_cast<std::uint32_t>(ranges.size()));
  }
  return test::transitive_closure(
      test::bitmap_conflicts({kinds, offsets, ranges, graph.n_memories}));
}

bool conflict(const OrderedRecording& r, std::uint32_t u, std::uint32_t v) {
  for (std::uint32_t a = r.range_offsets[u]; a < r.range_offsets[u + 1]; ++a) {
    for (std::uint32_t b = r.range_offsets[v]; b < r.range_offsets[v + 1]; ++b) {
      const PhysicalRange &x = r.ranges[a], &y = r.ranges[b];
      if (x.region == y.region && (x.write || y.write) && x.lo < y.hi && y.lo < x.hi) return true;
    }
  }
  return false;
}

// Rows by index in the program: what the bytes demand, and what the edges give.
void physical_closures(const OrderedRecording& r, const std::vector<bool>& is_fence, BitRows& bytes,
                       BitRows& edges) {
  const std::size_t n = is_fence.size();
  BitRows demanded(n), given(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t k = 0; k < i; ++k) demanded[i][k] = is_fence[i] || is_fence[k];
  }
  for (std::uint32_t v = 0; v < r.launches.size(); ++v) {
    const std::uint32_t at = r.launches[v].index;
    for (std::uint32_t u = 0; u < v; ++u) {
      const std::uint32_t other = r.launches[u].index;
      if (conflict(r, u, v)) demanded[std::max(at, other)][std::min(at, other)] = true;
    }
    for (std::uint32_t e = r.pred_offsets[v]; e < r.pred_offsets[v + 1]; ++e) {
      given[at][r.launches[r.preds[e]].index] = true;
    }
  }
  bytes = test::transitive_closure(demanded);
  edges = test::transitive_closure(given);
}

TEST(Closure, OnPhysicalBytesEqualsTheVirtualOne) {
  const std::uint32_t n = count(1000, 10000);
  const Stopwatch watch;
  std::atomic<std::uint64_t> shared{0}, arena{0}, unaliased{0};
  const std::string failure = for_all_graphs(n, [&](Bench& bench, std::uint64_t seed) {
    GraphOptions options;
    options.max_scratch = 24;
    options.pair_percent = 10;
    const GraphSpec graph = random_graph(seed, options);
    std::vector<bool> is_fence;
    const BitRows expected = virtual_closure(graph, is_fence);
    bench.load(graph);
    const auto plan = bench.record(graph).compile({.fuse = false});
    if (!plan) return plan.error().to_string();
    BitRows bytes, edges;
    physical_closures(OrderedRecording(plan->state().pass->recording, plan->state().pass->order),
                      is_fence, bytes, edges);
    for (std::uint32_t v = 0; v < is_fence.size(); ++v) {
      for (std::uint32_t u = 0; u < v; ++u) {
        if (is_fence[u] || is_fence[v]) continue;
        const std::string pair = std::to_string(u) + " -> " + std::to_string(v);
        if (bytes[v][u] != expected[v][u]) return "bytes disagree about " + pair;
        if (edges[v][u] != expected[v][u]) return "edges disagree about " + pair;
      }
    }
    const PlanReport& report = plan->report();
    shared += report.arena_bytes < report.scratch_bytes ? 1 : 0;
    arena += report.arena_bytes;
    unaliased += report.scratch_bytes;
    return std::string();
  });
  ASSERT_EQ(failure, "");
  std::printf("%u programs, %.1f s; %llu share bytes, arenas %.2f of unaliased\n", n,
              watch.seconds(), static_cast<unsigned long long>(shared),
              static_cast<double>(arena) / static_cast<double>(unaliased));
  EXPECT_GT(shared, n / 4);
}

TEST(Closure, ModelPlansHaveSmallArenas) {
  auto state = DeviceState::create(std::make_unique<NullBackend>(), {});
  ASSERT_TRUE(state);
  const Device device(std::move(*state));
  const GraphExecutor executor(device);
  std::printf("%-20s %10s %12s %12s %8s\n", "program", "dispatches", "arena", "level-aware",
              "ratio");
  for (const auto& [name, builder] : test::all_model_programs(full_run() ? 30 : 8)) {
    const auto plan = compile_program(device, executor, builder);
    ASSERT_TRUE(plan) << name << ": " << plan.error().to_string();
    const std::uint64_t arena = plan->report().arena_bytes;
    const std::uint64_t baseline = test::level_aware_arena(builder, buffer_alignment);
    EXPECT_EQ(plan->report().dispatches, builder.program().size()) << name;
    EXPECT_LE(4 * arena, 5 * baseline) << name;
    std::printf("%-20s %10u %12llu %12llu %8.3f\n", name.c_str(), plan->report().dispatches,
                static_cast<unsigned long long>(arena), static_cast<unsigned long long>(baseline),
                static_cast<double>(arena) / static_cast<double>(baseline));
  }
}

}  // namespace
}  // namespace onepass::property::closure_test
