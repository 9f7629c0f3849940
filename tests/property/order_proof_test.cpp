// The order of random programs, on the CPU and as a card would choose it: sound as it is, and each
// edge and each boundary between levels is reported when it goes, or implied by the others.
#include "support/order_proof.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <mutex>
#include <random>

#include "core/device_state.h"
#include "graph/plan_state.h"
#include "property/bench.h"
#include "support/backends/forwarding.h"

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

TEST(OrderProof, EveryEdgeAndBoundaryIsReportedOrImplied) {
  const std::uint32_t n = count(1000, 20000);
  const Stopwatch watch;
  std::mutex mutex;
  Removals cpu, levels, on_card;
  const std::string failure = for_all_graphs(n, [&](Bench& bench, std::uint64_t seed) {
    const GraphSpec graph = random_graph(seed);
    bench.load(graph);
    const auto plan = bench.record(graph).compile({.fuse = seed % 2 == 0});
    if (!plan) return plan.error().to_string();
    const PlanState& state = plan->state();
    const Recording& r = state.pass->recording;
    Removals a, b, c;
    std::string text = test::check_removals(r, state.pass->order, a);
    if (text.empty()) text = test::check_removals(r, graph::order_by_levels(r), b);
    if (text.empty()) {
      const Recording like = as_on_a_card(r, seed);
      text = test::check_removals(like,
                                  graph::choose_order(like, state.dependencies, card(), false), c);
    }
    const std::lock_guard lock(mutex);
    cpu += a;
    levels += b;
    on_card += c;
    return text;
  });
  ASSERT_EQ(failure, "");
  for (const auto& [name, t] :
       {std::pair{"edges", &cpu}, {"levels", &levels}, {"card", &on_card}}) {
    std::printf(
        "%s: %llu orders; taken away: %llu edges, %llu boundaries, %llu made programmatic; "
        "%llu reported, %llu implied; chosen: %llu programmatic, %llu added\n",
        name, static_cast<unsigned long long>(t->orders), static_cast<unsigned long long>(t->edges),
        static_cast<unsigned long long>(t->boundaries),
        static_cast<unsigned long long>(t->weakened), static_cast<unsigned long long>(t->reported),
        static_cast<unsigned long long>(t->implied),
        static_cast<unsigned long long>(t->programmatic),
        static_cast<unsigned long long>(t->added));
  }
  std::printf("%.1f s\n", watch.seconds());
  EXPECT_EQ(cpu.orders, n);
  EXPECT_EQ(cpu.implied, 0u) << "no edge of a reduced graph follows from others";
  EXPECT_GT(cpu.edges + levels.boundaries + on_card.edges, 20u * n);
  EXPECT_GT(on_card.programmatic, n);
  EXPECT_GT(on_card.added, n / 2);
  EXPECT_GT(on_card.implied, n);
}

// What is proven is what the backend gets: the same object, until somebody tampers with it.
class Tampering final : public test::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  bool drops_an_edge = false;
  std::vector<graph::Violation> found;  // in what was recorded last
  const Order* got = nullptr;           // from above

  Result<std::unique_ptr<Recorded>> record(const Recording& r, const Order& order) override {
    got = &order;
    Order run = order;
    if (drops_an_edge && !run.edges.empty()) {
      run.edges.pop_back();
      for (std::uint32_t& end : run.edge_offsets) {
        end = std::min(end, static_cast<std::uint32_t>(run.edges.size()));
      }
    }
    found = graph::find_violations(r, run);
    return inner_->record(r, run);
  }
};

TEST(OrderProof, WhatIsProvenIsWhatIsRecorded) {
  Tampering* backend = nullptr;
  Bench bench([&](std::unique_ptr<Backend> inner) {
    auto wrapped = std::make_unique<Tampering>(std::move(inner));
    backend = wrapped.get();
    return wrapped;
  });
  std::size_t caught = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const GraphSpec graph = random_graph(seed);
    bench.load(graph);
    for (const bool tampers : {false, true}) {
      backend->drops_an_edge = tampers;
      const auto plan = bench.record(graph).compile({.fuse = false});
      ASSERT_TRUE(plan) << plan.error().to_string();
      EXPECT_TRUE(plan->report().validated);
      EXPECT_EQ(backend->got, &plan->state().pass->order) << "a copy could be another order";
      if (!tampers) {
        EXPECT_TRUE(backend->found.empty()) << seed;
      }
      const bool dropped = tampers && !plan->state().pass->order.edges.empty();
      if (dropped) {
        EXPECT_FALSE(backend->found.empty()) << seed;
      }
      caught += dropped ? 1 : 0;
    }
  }
  EXPECT_GT(caught, 100u);
}

}  // namespace
}  // namespace onepass::property::order_proof_test
