// Every order of a compiled plan is necessary: without any one of them the validator names the
// pair that lost it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "core/device_state.h"
#include "graph/plan_state.h"
#include "graph/validate.h"
#include "property/bench.h"
#include "support/ordered_recording.h"

namespace onepass::property::plan_mutation_test {
namespace {

using graph::Violation;
using testing::find_violations;
using testing::OrderedRecording;

struct Totals {
  std::atomic<std::uint64_t> plans{0}, edges{0}, fence_edges{0}, levels{0}, fence_levels{0};
};

bool crosses_fence(const OrderedRecording& r, const Violation& v) {
  return std::any_of(r.launches.begin() + v.first, r.launches.begin() + v.second,
                     [](const RecordedLaunch& l) { return l.is_fence(); });
}

std::string pair_text(std::uint32_t u, std::uint32_t v) {
  return std::to_string(u) + " -> " + std::to_string(v);
}

// A fence has no bytes of its own: its pairs are those on either side of it.
std::string check_edge(const OrderedRecording& cut, std::uint32_t u, std::uint32_t v) {
  const auto found = find_violations(cut, OrderKind::edges);
  if (found.size() != 1) return "removed edge " + pair_text(u, v) + " is not reported";
  const bool u_fence = cut.launches[u].is_fence(), v_fence = cut.launches[v].is_fence();
  const Violation& got = found[0];
  const bool first_ok = u_fence ? got.first < u : got.first == u;
  const bool second_ok = v_fence ? got.second > v : got.second == v;
  const bool fence_ok = !(u_fence || v_fence) || crosses_fence(cut, got);
  if (!first_ok || !second_ok || !fence_ok) {
    return "removed edge " + pair_text(u, v) + ", reported " + pair_text(got.first, got.second);
  }
  return {};
}

std::string remove_each_edge(const OrderedRecording& whole, Totals& totals) {
  OrderedRecording cut = whole;
  for (std::uint32_t v = 0; v < whole.launches.size(); ++v) {
    for (std::uint32_t e = whole.pred_offsets[v]; e < whole.pred_offsets[v + 1]; ++e) {
      const std::uint32_t u = whole.preds[e];
      cut.preds = whole.preds;
      cut.preds.erase(cut.preds.begin() + e);
      cut.pred_offsets = whole.pred_offsets;
      for (std::size_t k = std::size_t{v} + 1; k < cut.pred_offsets.size(); ++k) {
        --cut.pred_offsets[k];
      }
      if (std::string text = check_edge(cut, u, v); !text.empty()) return text;
      const bool at_fence = whole.launches[u].is_fence() || whole.launches[v].is_fence();
      ++(at_fence ? totals.fence_edges : totals.edges);
    }
  }
  return {};
}

std::string merge_each_level(const OrderedRecording& whole, Totals& totals) {
  OrderedRecording merged = whole;
  for (std::uint32_t level = 0; level + 1 < whole.n_levels(); ++level) {
    merged.level_offsets = whole.level_offsets;
    merged.level_offsets.erase(merged.level_offsets.begin() + level + 1);
    for (std::size_t i = 0; i < whole.launches.size(); ++i) {
      const std::uint32_t own = whole.launches[i].level;
      merged.launches[i].level = own > level ? own - 1 : own;
    }
    const auto found = find_violations(merged, OrderKind::levels);
    if (found.size() != 1) return "merged level " + std::to_string(level) + " is not reported";
    const Violation& v = found[0];
    if (whole.launches[v.first].level != level || whole.launches[v.second].level != level + 1) {
      return "merged level " + std::to_string(level) + ", reported " + pair_text(v.first, v.second);
    }
    ++(v.lo == v.hi ? totals.fence_levels : totals.levels);
  }
  return {};
}

TEST(PlanMutation, EveryRemovedEdgeAndBarrierIsReported) {
  const std::uint32_t n = count(500, 20000);
  const Stopwatch watch;
  Totals totals;
  const std::string failure = for_all_graphs(n, [&](Bench& bench, std::uint64_t seed) {
    const GraphSpec graph = random_graph(seed);
    bench.load(graph);
    const auto plan = bench.record(graph).compile({.fuse = seed % 2 == 0});
    if (!plan) return plan.error().to_string();
    const OrderedRecording recording(plan->state().pass->recording, plan->state().pass->order);
    for (const auto model : {OrderKind::edges, OrderKind::levels}) {
      if (const Status status = testing::validate(recording, model); !status) {
        return status.error().to_string();
      }
    }
    ++totals.plans;
    std::string text = remove_each_edge(recording, totals);
    return text.empty() ? merge_each_level(recording, totals) : text;
  });
  ASSERT_EQ(failure, "");
  std::printf(
      "%llu plans, %.1f s; removed and named: %llu edges, %llu edges at fences; merged and "
      "named: %llu levels by bytes, %llu by a fence\n",
      static_cast<unsigned long long>(totals.plans), watch.seconds(),
      static_cast<unsigned long long>(totals.edges),
      static_cast<unsigned long long>(totals.fence_edges),
      static_cast<unsigned long long>(totals.levels),
      static_cast<unsigned long long>(totals.fence_levels));
  EXPECT_GT(totals.edges, 20u * n);
  EXPECT_GT(totals.fence_edges, n);
  EXPECT_GT(totals.levels, 5u * n);
}

}  // namespace
}  // namespace onepass::property::plan_mutation_test
