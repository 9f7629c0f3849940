#include "graph/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "graph/validate.h"
#include "support/recordings.h"

namespace onepass::graph::order_test {
namespace {

using testing::OrderedRecording;
using Edges = std::set<std::pair<std::uint32_t, std::uint32_t>>;
using Preds = std::vector<std::vector<std::uint32_t>>;

const KernelRow waiting{.name = "waits", .start = {.waits_first = true}};
const KernelRow plain{.name = "plain"};

DeviceInfo card(std::uint32_t compute_units = 0) {
  DeviceInfo device;
  device.order = OrderKind::edges;
  device.programmatic_edges = true;
  device.paces_full_launches = compute_units > 0;
  device.compute_units = compute_units;
  return device;
}

// Launches without accesses.
Recording recording_of(const std::vector<const KernelRow*>& rows) {
  Recording r;
  r.range_offsets.assign(rows.size() + 1, 0);
  for (const KernelRow* row : rows) {
    RecordedLaunch& l = r.launches.emplace_back();
    l.kernel = row;
    l.index = l.level = static_cast<std::uint32_t>(r.launches.size() - 1);
  }
  return r;
}

void set_ranges(Recording& r, const std::vector<std::vector<PhysicalRange>>& ranges) {
  r.ranges.clear();
  r.range_offsets.assign(1, 0);
  for (const auto& list : ranges) {
    r.ranges.insert(r.ranges.end(), list.begin(), list.end());
    r.range_offsets.push_back(static_cast<std::uint32_t>(r.ranges.size()));
  }
}

Dependencies dependencies_of(const Preds& preds) {
  Dependencies d;
  d.offsets.push_back(0);
  for (const auto& list : preds) {
    d.preds.insert(d.preds.end(), list.begin(), list.end());
    d.offsets.push_back(static_cast<std::uint32_t>(d.preds.size()));
  }
  return d;
}
Dependencies chain(std::size_t n) {
  Preds preds(n);
  for (std::uint32_t i = 1; i < n; ++i) preds[i] = {i - 1};
  return dependencies_of(preds);
}

template <class Keep>
Edges edges_that(const Order& order, Keep keep) {
  Edges edges;
  for (std::uint32_t v = 0; v + 1 < order.edge_offsets.size(); ++v) {
    for (const Edge& e : order.edges_into(v)) {
      if (keep(e)) edges.emplace(e.from, v);
    }
  }
  return edges;
}
Edges programmatic(const Order& order) {
  return edges_that(order, [](const Edge& e) { return e.programmatic; });
}
Edges added(const Order& order) {
  return edges_that(order, [](const Edge& e) { return e.added; });
}
Edges all(const Order& order) {
  return edges_that(order, [](const Edge&) { return true; });
}

TEST(Order, IsTheDevicesKind) {
  const Recording r = recording_of({&plain, &plain, &plain});
  DeviceInfo device = card();
  EXPECT_EQ(choose_order(r, chain(3), device, false).kind, OrderKind::edges);
  EXPECT_EQ(choose_order(r, chain(3), device, true).kind, OrderKind::in_order);
  device.order = OrderKind::levels;
  const Order levels = choose_order(r, chain(3), device, false);
  EXPECT_EQ(levels.kind, OrderKind::levels);
  EXPECT_EQ(levels.level_offsets, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_TRUE(levels.edges.empty());
  device.order = OrderKind::in_order;
  EXPECT_EQ(choose_order(r, chain(3), device, false).kind, OrderKind::in_order);
}

TEST(Order, IsProgrammaticBetweenKernelsThatBothWait) {
  const Recording r = recording_of({&waiting, &waiting, &plain, &waiting, &waiting});
  EXPECT_EQ(programmatic(choose_order(r, chain(5), card(), false)), (Edges{{0, 1}, {3, 4}}));
  DeviceInfo without = card();
  without.programmatic_edges = false;
  const Order full = choose_order(r, chain(5), without, false);
  EXPECT_TRUE(programmatic(full).empty());
  EXPECT_EQ(all(full).size(), 4u);
}

TEST(Order, HasFullEdgesWhereTimesAreAskedFor) {
  Recording r = recording_of({&waiting, &waiting, &waiting});
  r.timed = true;
  EXPECT_TRUE(programmatic(choose_order(r, chain(3), card(), false)).empty());
}

TEST(Order, HasFullEdgesInPassesOfManyRows) {
  Recording r = recording_of({&waiting, &waiting, &waiting});
  r.launches[2].launch.bytes_moved = 1000;
  r.launches[2].launch.flops = 64 * 1000;
  EXPECT_EQ(programmatic(choose_order(r, chain(3), card(), false)).size(), 2u);
  r.launches[2].launch.flops = 64 * 1001;
  EXPECT_TRUE(programmatic(choose_order(r, chain(3), card(), false)).empty());
}

TEST(Order, OfSeveralEdgesOnlyTheNearestIsProgrammatic) {
  Recording r = recording_of({&waiting, &waiting, &waiting, &waiting});
  const Dependencies d = dependencies_of({{}, {}, {0}, {0, 1, 2}});
  EXPECT_EQ(programmatic(choose_order(r, d, card(), false)), (Edges{{0, 2}, {2, 3}}));
  r.launches[2].kernel = &plain;
  EXPECT_TRUE(programmatic(choose_order(r, d, card(), false)).empty());
}

TEST(Order, NoFenceOrEmptyLaunchStartsEarly) {
  Recording r = recording_of({&waiting, &waiting, &waiting, &waiting});
  r.launches[1].launch.grid = {0, 1, 1};
  EXPECT_EQ(programmatic(choose_order(r, chain(4), card(), false)), (Edges{{2, 3}}));
  r.launches[1].kernel = nullptr;
  EXPECT_EQ(programmatic(choose_order(r, chain(4), card(), false)), (Edges{{2, 3}}));
}

TEST(Order, WhatIsReadEarlyMayNotBeWrittenBefore) {
  // Launch 2 reads bytes [64, 128) early; nobody writes them, or this launch does.
  for (const int writer : {-1, 0, 1, 3}) {
    Recording r = recording_of({&waiting, &waiting, &waiting, &waiting});
    std::vector<std::vector<PhysicalRange>> ranges(4);
    ranges[2] = {{1, 64, 128, false, true}};
    if (writer >= 0) ranges[static_cast<std::size_t>(writer)] = {{1, 127, 129, true, false}};
    set_ranges(r, ranges);
    const bool before = writer == 0 || writer == 1;
    const Order order = choose_order(r, chain(4), card(), false);
    EXPECT_EQ(programmatic(order),
              before ? (Edges{{0, 1}, {2, 3}}) : (Edges{{0, 1}, {1, 2}, {2, 3}}))
        << writer;
    EXPECT_TRUE(validate(r, order)) << writer;
  }
}

TEST(Order, LaunchesThatFillTheDeviceStandInARow) {
  // 0 -> {1, 2} -> 3
  Recording r = recording_of({&waiting, &waiting, &waiting, &waiting});
  const auto order = [&](std::uint32_t first, std::uint32_t second) {
    r.launches[1].launch.grid = {first / 2, 2, 1};
    r.launches[2].launch.grid = {second, 1, 1};
    return choose_order(r, dependencies_of({{}, {0}, {0}, {1, 2}}), card(132), false);
  };
  const Edges row{{0, 1}, {1, 2}, {1, 3}, {2, 3}}, branches{{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  EXPECT_EQ(all(order(132, 4)), row);
  EXPECT_EQ(all(order(4, 132)), row);
  EXPECT_EQ(all(order(130, 131)), branches);
  EXPECT_TRUE(added(order(130, 131)).empty());
  EXPECT_EQ(added(order(4, 500)), (Edges{{1, 2}}));
  EXPECT_EQ(programmatic(order(4, 500)), (Edges{{0, 1}, {1, 2}, {2, 3}}));
}

// A launch's accesses as they happen: the early ones when it starts, the others when all it waits
// for is complete.
struct Randomized {
  Recording recording;
  Dependencies dependencies;
};

Randomized random_recording(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  const OrderedRecording r =
      testing::make_recording(testing::random_program(seed, 40, 24, 0.05),
                              Allocation{0x10000, nullptr, 1 << 20}, OrderKind::edges);
  Randomized out{r, {r.pred_offsets, r.preds}};
  std::vector<std::vector<PhysicalRange>> ranges(r.launches.size());
  for (std::size_t i = 0; i < r.launches.size(); ++i) {
    RecordedLaunch& l = out.recording.launches[i];
    if (l.is_fence()) continue;
    l.kernel = rng() % 3 == 0 ? &plain : &waiting;
    l.launch.grid = {static_cast<std::uint32_t>(1 + rng() % 200), 1, 1};
    for (std::uint8_t v = 0; v < l.n_views; ++v) {
      const bool write = v + 1 == l.n_views;
      const bool early = l.kernel == &waiting && !write && rng() % 8 == 0;
      const BoundView& view = l.views[v];
      ranges[i].push_back({1, view.offset, view.offset + view.bytes, write, early});
    }
  }
  set_ranges(out.recording, ranges);
  return out;
}

// What is complete when launch v starts and when it touches what it does not read early.
struct Complete {
  std::vector<std::vector<bool>> at_start, at_access;

  Complete(const Recording& r, const Order& order) {
    const std::size_t n = r.launches.size();
    at_start.assign(n, std::vector<bool>(n));
    at_access = at_start;
    const auto include = [n](std::vector<bool>& to, const std::vector<bool>& from) {
      for (std::size_t i = 0; i < n; ++i) to[i] = to[i] || from[i];
    };
    for (std::uint32_t v = 0; v < n; ++v) {
      for (const Edge& e : order.edges_into(v)) {
        at_access[v][e.from] = true;
        include(at_access[v], at_access[e.from]);
        if (e.programmatic) {
          include(at_start[v], at_start[e.from]);
        } else {
          at_start[v][e.from] = true;
          include(at_start[v], at_access[e.from]);
        }
      }
    }
  }
};

bool overlap(const PhysicalRange& a, const PhysicalRange& b) {
  return a.region == b.region && a.lo < b.hi && b.lo < a.hi;
}

TEST(Order, KeepsEveryOrderOfRandomRecordings) {
  std::size_t n_programmatic = 0, n_added = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Randomized made = random_recording(seed);
    const Recording& r = made.recording;
    const Order order = choose_order(r, made.dependencies, card(132), false);
    n_programmatic += programmatic(order).size();
    n_added += added(order).size();
    const Status valid = validate(r, order);
    ASSERT_TRUE(valid) << seed << ": " << valid.error().to_string();
    const Complete complete(r, order);
    const Complete demanded(r, order_by_edges(made.dependencies));
    for (std::uint32_t v = 0; v < r.launches.size(); ++v) {
      for (std::uint32_t u = 0; u < v; ++u) {
        if (!demanded.at_access[v][u]) continue;
        EXPECT_TRUE(complete.at_access[v][u]) << seed << ": " << u << ", " << v;
        for (const PhysicalRange& w : r.ranges_of(u)) {
          for (const PhysicalRange& e : r.ranges_of(v)) {
            if (!w.write || !e.early || !overlap(w, e)) continue;
            EXPECT_TRUE(complete.at_start[v][u]) << seed << ": " << u << ", " << v;
          }
        }
      }
    }
  }
  EXPECT_GT(n_programmatic, 100u);
  EXPECT_GT(n_added, 100u);
}

// The proof names exactly the orders that let a launch read before the bytes are there.
TEST(Order, EarlyStartsAreProvenOrReported) {
  std::size_t legal = 0, reported = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Randomized made = random_recording(seed);
    const Recording& r = made.recording;
    std::mt19937_64 rng(seed);
    Order order = choose_order(r, made.dependencies, card(132), false);
    // Any edge may start early, also where a kernel does not wait.
    for (int change = 0; change < 3; ++change) {
      Edge& e = order.edges[rng() % order.edges.size()];
      e.programmatic = !e.programmatic;
    }
    // Without the edges that order nothing.
    Order counted = order;
    counted.edges.clear();
    counted.edge_offsets.assign(1, 0);
    for (std::uint32_t v = 0; v < r.launches.size(); ++v) {
      for (const Edge& e : order.edges_into(v)) {
        const bool orders =
            !e.programmatic || (waits_first(r.launches[v]) && waits_first(r.launches[e.from]));
        if (orders) counted.edges.push_back(e);
      }
      counted.edge_offsets.push_back(static_cast<std::uint32_t>(counted.edges.size()));
    }
    const Complete complete(r, counted);
    std::set<std::pair<std::uint32_t, std::uint32_t>> expected;
    for (std::uint32_t v = 0; v < r.launches.size(); ++v) {
      for (std::uint32_t u = 0; u < v; ++u) {
        for (const PhysicalRange& a : r.ranges_of(u)) {
          for (const PhysicalRange& b : r.ranges_of(v)) {
            if (!(a.write || b.write) || !overlap(a, b)) continue;
            const bool early = a.write && b.early;
            if (!(early ? complete.at_start : complete.at_access)[v][u]) expected.emplace(u, v);
          }
        }
      }
    }
    std::set<std::pair<std::uint32_t, std::uint32_t>> found;
    for (const Violation& v : find_violations(r, order, 100000)) {
      if (v.lo != v.hi) found.emplace(v.first, v.second);
    }
    EXPECT_EQ(found, expected) << seed;
    ++(expected.empty() ? legal : reported);
  }
  EXPECT_GT(legal, 50u);
  EXPECT_GT(reported, 50u);
}

TEST(Order, AnEarlyReadIsToldAsWhatItIs) {
  Recording r = recording_of({&waiting, &waiting});
  set_ranges(r, {{{1, 0, 64, true, false}}, {{1, 32, 64, false, true}}});
  Order order = order_by_edges(chain(2));
  EXPECT_TRUE(validate(r, order));
  order.edges[0].programmatic = true;
  const Status status = validate(r, order);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "read before the wait: launch 1 'waits' may start before launch 0 'waits', which "
            "writes bytes [32, 64) of region 1, is complete");
  r.launches[0].kernel = &plain;
  EXPECT_THAT(validate(r, order).error().message,
              ::testing::StartsWith("read after write not ordered"));
}

}  // namespace
}  // namespace onepass::graph::order_test
