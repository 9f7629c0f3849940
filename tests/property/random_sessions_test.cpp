// Random passes give the same bytes and the same inputs to every dispatch for every combination of
// passes and every legal order.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdio>

#include "property/bench.h"

namespace onepass::property::random_sessions_test {
namespace {

constexpr std::uint32_t n_random_orders = 8;

struct Combination {
  const char* name;
  bool fuse, reorder;
  Policy policy;
};
constexpr std::array<Combination, 5> combinations{{
    {"no pass", false, false, Policy::exact},
    {"fuse", true, false, Policy::exact},
    {"greedy", false, true, Policy::greedy64},
    {"exact", false, true, Policy::exact},
    {"all", true, true, Policy::exact},
}};

struct Totals {
  std::atomic<std::uint64_t> dispatches{0}, runs{0}, fused{0}, pairs{0}, moved{0}, plan_edges{0},
      aliased{0}, unaliased{0};
};

struct Run {
  RunOrder order;
  std::uint64_t seed;
  std::byte poison;
};

// Forward, reverse, then random ones; poison changes from run to run.
std::vector<Run> runs_for(std::uint64_t seed, bool levels_too) {
  std::vector<Run> runs{{RunOrder::forward, 0, std::byte{0xa5}},
                        {RunOrder::reverse, 0, std::byte{0x5a}}};
  const auto add = [&](RunOrder order, std::uint64_t salt) {
    runs.push_back({order, seed * 64 + salt, salt % 2 == 0 ? std::byte{0xa5} : std::byte{0x5a}});
  };
  for (std::uint64_t i = 0; i < n_random_orders; ++i) add(RunOrder::random, i);
  if (levels_too) {
    add(RunOrder::reverse_levels, 20);
    add(RunOrder::random_levels, 21);
    add(RunOrder::random_levels, 22);
  }
  return runs;
}

std::string failure_text(const std::string& what, const Run& run) {
  return what + ", " + name(run.order) + ", order seed " + std::to_string(run.seed);
}

std::string check_finish(Bench& bench, const GraphSpec& graph, const Outcome& expected,
                         Totals& totals) {
  for (const Combination& c : combinations) {
    FinishOptions options;
    options.fuse = c.fuse;
    options.reorder = c.reorder;
    options.policy = c.policy;
    for (const Run& run : runs_for(graph.seed, false)) {
      options.barriers = run.seed % 2 == 0 ? BarrierSource::recomputed : BarrierSource::recorded;
      bench.start(run.order, run.seed, run.poison);
      const auto report = bench.record(graph).finish(options);
      if (!report) return failure_text(c.name, run) + ": " + report.error().to_string();
      ++totals.runs;
      if (!bench.agrees(expected)) return failure_text(c.name, run) + ": other bytes";
      if (run.order != RunOrder::forward) continue;
      totals.moved += report->moved;
      if (&c == &combinations.back()) totals.fused += report->fused.count;
    }
  }
  return {};
}

std::string check_plans(Bench& bench, const GraphSpec& graph, const Outcome& expected,
                        Totals& totals) {
  for (const bool fuse : {false, true}) {
    const auto plan = bench.record(graph).compile({.fuse = fuse});
    const char* what = fuse ? "fused plan" : "plan";
    if (!plan) return what + (": " + plan.error().to_string());
    totals.plan_edges += plan->report().edges;
    totals.aliased += plan->report().arena_bytes;
    totals.unaliased += plan->report().scratch_bytes;
    for (const Run& run : runs_for(graph.seed, true)) {
      bench.start(run.order, run.seed, run.poison);
      if (const Status status = plan->run(); !status) {
        return failure_text(what, run) + ": " + status.error().to_string();
      }
      ++totals.runs;
      if (!bench.agrees(expected)) return failure_text(what, run) + ": other bytes";
    }
  }
  return {};
}

TEST(RandomSessions, SameBytesAndInputsForEveryPassAndOrder) {
  const std::uint32_t n = count(2000, 100000);
  const Stopwatch watch;
  Totals totals;
  const std::string failure = for_all_graphs(n, [&](Bench& bench, std::uint64_t seed) {
    const GraphSpec graph = random_graph(seed);
    for (const OpSpec& op : graph.ops) {
      totals.dispatches += op.is_dispatch() ? 1 : 0;
      totals.pairs += op.type == OpType::rms_norm ? 1 : 0;
    }
    const Outcome expected = run_reference(graph);
    bench.load(graph);
    std::string text = check_finish(bench, graph, expected, totals);
    return text.empty() ? check_plans(bench, graph, expected, totals) : text;
  });
  ASSERT_EQ(failure, "");
  std::printf(
      "%u graphs, %llu dispatches, %llu runs, %.1f s; %llu norms, %llu fused; "
      "%llu moved; %llu plan edges; arenas %.2f of unaliased\n",
      n, static_cast<unsigned long long>(totals.dispatches),
      static_cast<unsigned long long>(totals.runs), watch.seconds(),
      static_cast<unsigned long long>(totals.pairs), static_cast<unsigned long long>(totals.fused),
      static_cast<unsigned long long>(totals.moved),
      static_cast<unsigned long long>(totals.plan_edges),
      static_cast<double>(totals.aliased) / static_cast<double>(totals.unaliased));
  // Both kinds of pairs must be there, or the comparison shows nothing.
  EXPECT_GT(totals.fused, totals.pairs / 20);
  EXPECT_LT(totals.fused, totals.pairs * 9 / 10);
  EXPECT_GT(totals.moved, totals.dispatches / 4);
  EXPECT_LT(totals.aliased, totals.unaliased);
}

}  // namespace
}  // namespace onepass::property::random_sessions_test
