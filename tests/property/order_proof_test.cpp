// The order of random programs, on the CPU and as a card would choose it: sound as it is, and each
// edge and each boundary between levels is reported when it goes, or implied by the others.
#include "support/order_proof.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <mutex>
#include <random>

#include "backends/null/null.h"
#include "core/device_state.h"
#include "graph/plan_state.h"
#include "property/bench.h"
#include "support/backends/tampering.h"
#include "support/model_programs.h"

namespace onepass::property::order_proof_test {
namespace {

using test::Removals;

DeviceInfo card() {
  DeviceInfo device;
  device.order = OrderKind::edges;
  device.programmatic_edges = true;
  device.paces_full_launches = true;
  device.compute_units = 132;
  return device;
}

// The recording with kernels that wait, or not, and read some of their inputs early.
Recording as_on_a_card(const Recording& recording, std::uint64_t seed) {
  static const KernelRow waiting{.name = "waits", .start = {.waits_first = true}};
  static const KernelRow plain{.name = "plain"};
  std::mt19937_64 rng(seed);
  Recording r = recording;
  for (std::uint32_t i = 0; i < r.launches.size(); ++i) {
    RecordedLaunch& l = r.launches[i];
    if (l.is_fence()) continue;
    l.kernel = rng() % 4 == 0 ? &plain : &waiting;
    l.launch.grid = {static_cast<std::uint32_t>(1 + rng() % 200), 1, 1};
    for (std::uint32_t k = r.range_offsets[i]; k < r.range_offsets[i + 1]; ++k) {
      r.ranges[k].early = l.kernel == &waiting && !r.ranges[k].write && rng() % 6 == 0;
    }
  }
  return r;
}

// One line for each: what may go, and why. In the full run, to implied_orders.txt.
class ImpliedList {
 public:
  ImpliedList() : file_(full_run() ? std::fopen("implied_orders.txt", "w") : nullptr) {}
  ~ImpliedList() {
    if (file_ != nullptr) std::fclose(file_);
  }
  ImpliedList(const ImpliedList&) = delete;
  ImpliedList& operator=(const ImpliedList&) = delete;

  void add(std::uint64_t program, const char* order, const Removals& from) {
    for (const test::Implied& i : from.implied) {
      if (file_ == nullptr) break;
      std::fprintf(file_, "program %llu, %s: %u -> %u, %s\n",
                   static_cast<unsigned long long>(program), order, i.first, i.second, i.why);
    }
  }

 private:
  std::FILE* file_;
};

TEST(OrderProof, EveryEdgeAndBoundaryIsReportedOrImplied) {
  const std::uint32_t n = count(1000, 20000);
  const Stopwatch watch;
  std::mutex mutex;
  ImpliedList list;
  Removals cpu, levels, on_card;
  const std::string failure = for_all_graphs(n, [&](Bench& bench, std::uint64_t seed) {
    const GraphSpec graph = random_graph(seed);
    bench.load(graph);
    const auto plan = bench.record(graph).compile({.fuse = seed % 2 == 0});
    if (!plan) return plan.error().to_string();
    const PlanState& state = plan->state();
    const Recording& r = state.pass->recording;
    const Recording like = as_on_a_card(r, seed);
    const Order paced = graph::choose_order(like, state.dependencies, card(), false);
    Removals a, b, c;
    std::string text = test::check_removals(r, state.pass->order, a);
    if (text.empty()) text = test::check_removals(r, graph::order_by_levels(r), b);
    if (text.empty()) text = test::check_removals(like, paced, c);
    const std::lock_guard lock(mutex);
    cpu += a;
    levels += b;
    on_card += c;
    list.add(seed, "edges", a);
    list.add(seed, "levels", b);
    list.add(seed, "card", c);
    return text;
  });
  ASSERT_EQ(failure, "");
  test::print("edges", cpu);
  test::print("levels", levels);
  test::print("card", on_card);
  std::printf("%.1f s\n", watch.seconds());
  EXPECT_EQ(cpu.orders, n);
  EXPECT_TRUE(cpu.implied.empty()) << "no edge of a reduced graph follows from others";
  EXPECT_TRUE(levels.implied.empty()) << "every level has a launch that waits for the one before";
  EXPECT_GT(cpu.total() + levels.total() + on_card.total(), 50u * n);
  EXPECT_GT(on_card.programmatic, n);
  EXPECT_GT(on_card.added, n / 2);
  EXPECT_GT(on_card.early, n);
  EXPECT_GT(on_card.implied.size(), n);
}

// The token of several families, as an engine without a scheduler records it.
TEST(OrderProof, ModelPrograms) {
  auto device_state = DeviceState::create(std::make_unique<NullBackend>(), {});
  ASSERT_TRUE(device_state);
  const Device device(std::move(*device_state));
  const GraphExecutor executor(device);
  Removals totals;
  for (const auto& [name, builder] : test::all_model_programs(full_run() ? 8 : 2)) {
    const auto plan = compile_program(device, executor, builder);
    ASSERT_TRUE(plan) << name << ": " << plan.error().to_string();
    const PlanState& state = plan->state();
    const Recording& r = state.pass->recording;
    Removals edges;
    EXPECT_EQ(test::check_removals(r, graph::order_by_edges(state.dependencies), edges), "")
        << name;
    EXPECT_EQ(test::check_removals(r, graph::order_by_levels(r), edges), "") << name;
    EXPECT_TRUE(edges.implied.empty()) << name;
    const Recording like = as_on_a_card(r, 1);
    const Order paced = graph::choose_order(like, state.dependencies, card(), false);
    EXPECT_EQ(test::check_removals(like, paced, totals), "") << name;
    totals += edges;
  }
  test::print("model programs", totals);
  EXPECT_EQ(totals.orders, 3u * 7);
  EXPECT_GT(totals.early, 20u);
}

// What is proven is what the backend gets: the same object. Changed behind the proof, it is caught.
TEST(OrderProof, WhatIsProvenIsWhatIsRecorded) {
  test::TamperingBackend* backend = nullptr;
  Bench bench([&](std::unique_ptr<Backend> inner) {
    auto wrapped = std::make_unique<test::TamperingBackend>(std::move(inner));
    backend = wrapped.get();
    return wrapped;
  });
  const auto drop_last_edge = [](Order& order) {
    if (order.edges.empty()) return;
    order.edges.pop_back();
    for (std::uint32_t& end : order.edge_offsets) {
      end = std::min(end, static_cast<std::uint32_t>(order.edges.size()));
    }
  };
  std::size_t caught = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const GraphSpec graph = random_graph(seed);
    bench.load(graph);
    for (const bool tampers : {false, true}) {
      backend->tamper = tampers ? std::function<void(Order&)>(drop_last_edge) : nullptr;
      const auto plan = bench.record(graph).compile({.fuse = false});
      ASSERT_TRUE(plan) << plan.error().to_string();
      EXPECT_TRUE(plan->report().validated);
      EXPECT_EQ(backend->got, &plan->state().pass->order) << "a copy could be another order";
      const bool dropped = tampers && !plan->state().pass->order.edges.empty();
      EXPECT_EQ(backend->found.empty(), !dropped) << seed;
      caught += dropped ? 1 : 0;
    }
  }
  EXPECT_GT(caught, 100u);
}

}  // namespace
}  // namespace onepass::property::order_proof_test
