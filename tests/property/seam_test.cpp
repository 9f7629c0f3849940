// A pass cut in two command buffers at any place gives the same bytes, also when both complete
// late.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "core/device_state.h"
#include "graph/validate.h"
#include "property/bench.h"
#include "support/backends/fault.h"

namespace onepass::property::seam_test {
namespace {

// What the device runs: the second part begins when the first has ended.
OrderedRecording join(const std::vector<OrderedRecording>& parts) {
  OrderedRecording all;
  all.range_offsets.push_back(0);
  for (const OrderedRecording& part : parts) {
    const auto first_launch = static_cast<std::uint32_t>(all.launches.size());
    const auto first_range = static_cast<std::uint32_t>(all.ranges.size());
    const std::uint32_t first_level = all.level_offsets.empty() ? 0 : all.n_levels();
    if (!all.level_offsets.empty()) all.level_offsets.pop_back();
    for (const std::uint32_t o : part.level_offsets) {
      all.level_offsets.push_back(first_launch + o);
    }
    for (RecordedLaunch l : part.launches) {
      l.level += first_level;
      l.index += first_launch;
      all.launches.push_back(l);
    }
    for (std::size_t i = 1; i < part.range_offsets.size(); ++i) {
      all.range_offsets.push_back(first_range + part.range_offsets[i]);
    }
    all.ranges.insert(all.ranges.end(), part.ranges.begin(), part.ranges.end());
  }
  return all;
}

std::uint32_t dispatches_of(const GraphSpec& graph) {
  std::uint32_t n = 0;
  for (const OpSpec& op : graph.ops) n += op.is_dispatch() ? 1 : 0;
  return n;
}

FinishOptions split_at(std::uint32_t k) {
  FinishOptions options;
  options.command_buffers = 2;
  options.first_min = k;
  options.first_percent = 0;
  return options;
}

TEST(Seam, EverySplitGivesTheSameBytes) {
  const std::uint32_t n = count(100, 1000);
  const Stopwatch watch;
  std::atomic<std::uint64_t> splits{0}, runs{0};
  const std::string failure = for_all_graphs(n, [&](Bench& bench, std::uint64_t seed) {
    const GraphSpec graph = random_graph(seed);
    const Outcome expected = run_reference(graph);
    bench.load(graph);
    const std::uint32_t n_dispatches = dispatches_of(graph);
    for (std::uint32_t k = 0; k <= n_dispatches; ++k) {
      for (std::uint32_t variant = 0; variant < 6; ++variant) {
        FinishOptions options = split_at(k);
        options.fuse = variant % 2 == 0;
        options.reorder = variant >= 2;
        options.policy = variant >= 4 ? Policy::greedy64 : Policy::exact;
        const std::string what =
            "split at " + std::to_string(k) + ", variant " + std::to_string(variant) + ": ";
        std::vector<OrderedRecording> parts;
        bench.backend().capture(&parts);
        bench.start(variant % 3 == 0 ? RunOrder::reverse : RunOrder::random, seed + k,
                    k % 2 == 0 ? std::byte{0xa5} : std::byte{0x5a});
        const auto report = bench.record(graph).finish(options);
        bench.backend().capture(nullptr);
        if (!report) return what + report.error().to_string();
        if (!bench.agrees(expected)) return what + "other bytes";
        ++runs;
        if (report->submissions != parts.size()) return what + "recordings are missing";
        const bool inside = k > 0 && k < report->dispatches;
        if (inside && report->submissions != 2) return what + "not split";
        splits += report->submissions == 2 ? 1 : 0;
        for (std::size_t p = 0; p < parts.size(); ++p) {
          if (report->barriers[p] + 1 != parts[p].n_levels()) {
            return what + std::to_string(report->barriers[p]) + " barriers in part " +
                   std::to_string(p) + " of " + std::to_string(parts[p].n_levels()) +
                   " levels and " + std::to_string(parts[p].launches.size()) + " launches";
          }
        }
        const Status valid = testing::validate(join(parts), OrderKind::levels);
        if (!valid) return what + valid.error().to_string();
      }
    }
    return std::string();
  });
  ASSERT_EQ(failure, "");
  std::printf("%u graphs, %llu runs, %llu in two parts, %.1f s\n", n,
              static_cast<unsigned long long>(runs), static_cast<unsigned long long>(splits),
              watch.seconds());
}

// A bench whose device can hold submissions back.
struct HeldBench {
  FaultBackend* fault = nullptr;
  Bench bench;

  explicit HeldBench(bool wait_releases)
      : bench([&](std::unique_ptr<Backend> inner) -> std::unique_ptr<Backend> {
          FaultOptions options;
          options.wait_releases = wait_releases;
          auto own = std::make_unique<FaultBackend>(std::move(inner), options);
          fault = own.get();
          return own;
        }) {}
};

// Two passes, two command buffers each, all four in flight before the first begins.
TEST(Seam, LateCompletionKeepsTheOrderOfPassesAndParts) {
  const std::uint32_t n = count(100, 1000);
  HeldBench held(false);
  Bench& bench = held.bench;
  for (std::uint64_t seed = 0; seed < n; ++seed) {
    SCOPED_TRACE(seed);
    GraphSpec graph = random_graph(seed);
    graph.discards.clear();  // the second pass may read all that the first left
    const Outcome expected = run_reference(graph, 2);
    bench.load(graph);
    bench.start(seed % 2 == 0 ? RunOrder::reverse : RunOrder::random, seed, std::byte{0x5a});
    held.fault->set_hold(true);
    FinishOptions options = split_at(1 + static_cast<std::uint32_t>(seed) % 16);
    options.fuse = false;
    options.reorder = seed % 3 != 0;
    options.wait = false;
    std::vector<Submission> passes;
    for (int pass = 0; pass < 2; ++pass) {
      const auto report = bench.record(graph).finish(options);
      ASSERT_TRUE(report) << report.error().to_string();
      passes.push_back(report->submission);
    }
    EXPECT_GE(held.fault->held(), 2u);
    EXPECT_FALSE(passes[0].is_done() || passes[1].is_done());
    EXPECT_EQ(bench.log().hashes, InputLog{}.hashes) << "something ran early";
    held.fault->release_held();
    held.fault->set_hold(false);
    for (const Submission& s : passes) ASSERT_TRUE(s.wait());
    EXPECT_TRUE(bench.agrees(expected));
    if (HasFailure()) return;
  }
}

// finish() waits on one thread while another lets the device go on.
TEST(Seam, FinishWaitsForBothParts) {
  HeldBench held(false);
  Bench& bench = held.bench;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const GraphSpec graph = random_graph(seed);
    const Outcome expected = run_reference(graph);
    bench.load(graph);
    bench.start(RunOrder::reverse, seed, std::byte{0xa5});
    held.fault->set_hold(true);
    std::atomic<bool> returned{false};
    std::thread other([&] {
      while (held.fault->held() < 2) std::this_thread::yield();
      EXPECT_FALSE(returned);
      held.fault->set_hold(false);
      held.fault->release_held();
    });
    FinishOptions options = split_at(3);
    options.fuse = false;
    const auto report = bench.record(graph).finish(options);
    returned = true;
    other.join();
    ASSERT_TRUE(report) << report.error().to_string();
    EXPECT_EQ(report->submissions, 2u);
    EXPECT_TRUE(report->submission.is_done());
    EXPECT_TRUE(bench.agrees(expected));
  }
}

// Whichever of the two parts fails, finish says so and the next pass is whole again.
TEST(Seam, AFailedPartIsReported) {
  HeldBench held(true);
  Bench& bench = held.bench;
  for (const BackendCall call : {BackendCall::submit, BackendCall::wait}) {
    for (std::uint64_t nth = 1; nth <= 2; ++nth) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        SCOPED_TRACE(seed);
        const GraphSpec graph = random_graph(seed);
        bench.load(graph);
        bench.start(RunOrder::forward, 0, std::byte{0xa5});
        held.fault->set_hold(call == BackendCall::wait);
        held.fault->arm({.call = call, .nth = nth});
        const auto report = bench.record(graph).finish(split_at(4));
        held.fault->disarm();
        held.fault->set_hold(false);
        held.fault->release_held();
        ASSERT_FALSE(report);
        EXPECT_EQ(report.error().code, ErrorCode::submission_failed);
        bench.start(RunOrder::forward, 0, std::byte{0xa5});
        ASSERT_TRUE(bench.record(graph).finish(split_at(4)));
        EXPECT_TRUE(bench.agrees(run_reference(graph)));
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace onepass::property::seam_test
