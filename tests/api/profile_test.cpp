// Profiled plans: what each worker did agrees with the times of the dispatches; steps agree with
// the report.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "onepass/onepass.hpp"
#include "support/block.h"

namespace onepass::profile_test {
namespace {

constexpr std::uint32_t runs = 12;

test::BlockShape shape() {
  return {.dim = 96,
          .layers = 3,
          .heads = 6,
          .kv_heads = 2,
          .head_dim = 16,
          .ffn = 160,
          .vocab = 131,
          .context = 32};
}

struct Profiled {
  ProfileReport report;
  std::vector<PlanStep> steps;
  PlanReport plan;
};

Profiled run_block(std::uint32_t threads, bool fuse = true) {
  DeviceOptions options;
  options.backend = {CpuOptions{.threads = threads}};
  options.profile = Profile::dispatches;
  const Device device = Device::open("cpu", options).value();
  const test::Block block = test::Block::create(device, shape(), 1).value();
  GraphSession s = GraphExecutor(device).begin_recorded();
  block.forward(s);
  PlanOptions plan_options;
  plan_options.step = &block.step();
  plan_options.fuse = fuse;
  const Plan plan = s.compile(plan_options).value();
  EXPECT_TRUE(block.restart(1, 0));
  device.reset_profile();
  for (std::uint32_t i = 0; i < runs; ++i) EXPECT_TRUE(plan.run());
  return {device.profile(), plan.steps(), plan.report()};
}

TEST(Profiled, WorkersAndDispatchesAgree) {
  for (const std::uint32_t threads : {1u, 2u, 3u, 8u}) {
    SCOPED_TRACE(threads);
    const Profiled p = run_block(threads);
    EXPECT_EQ(p.report.dropped, 0u);
    ASSERT_EQ(p.report.samples.size(), runs * std::size_t{p.plan.dispatches});
    struct Seen {
      std::uint64_t start = ~std::uint64_t{0}, end = 0;
    };
    std::map<std::pair<std::uint64_t, std::uint32_t>, Seen> seen;  // by pass and dispatch
    std::map<std::uint32_t, std::vector<WorkerSlice>> lanes;
    for (const WorkerSlice& s : p.report.slices) {
      EXPECT_LT(s.worker, threads);
      EXPECT_LE(s.start_ns, s.end_ns);
      EXPECT_EQ(s.label, "plan");
      Seen& one = seen[{s.pass, s.index}];
      one.start = std::min(one.start, s.start_ns);
      one.end = std::max(one.end, s.end_ns);
      lanes[s.worker].push_back(s);
    }
    ASSERT_EQ(seen.size(), p.report.samples.size());
    for (const DispatchSample& s : p.report.samples) {
      const Seen& one = seen.at({s.pass, s.index});
      // The sample begins with the first tile that was taken, not the first that began.
      EXPECT_LE(one.start, s.start_ns);
      EXPECT_EQ(one.end, s.end_ns);
    }
    for (auto& [worker, slices] : lanes) {
      std::sort(slices.begin(), slices.end(),
                [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
      for (std::size_t i = 1; i < slices.size(); ++i) {
        EXPECT_LE(slices[i - 1].end_ns, slices[i].start_ns);
      }
    }
  }
}

TEST(Profiled, ResetForgetsSlices) {
  DeviceOptions options;
  options.backend = {CpuOptions{.threads = 2}};
  options.profile = Profile::dispatches;
  const Device device = Device::open("cpu", options).value();
  const test::Block block = test::Block::create(device, shape(), 1).value();
  GraphSession s = GraphExecutor(device).begin_recorded();
  block.forward(s);
  PlanOptions plan_options;
  plan_options.step = &block.step();
  const Plan plan = s.compile(plan_options).value();
  ASSERT_TRUE(block.restart(1, 0));
  ASSERT_TRUE(plan.run());
  EXPECT_FALSE(device.profile().slices.empty());
  device.reset_profile();
  EXPECT_TRUE(device.profile().slices.empty());
  ASSERT_TRUE(plan.run());
  // Only of the run since.
  std::vector<std::uint64_t> passes;
  for (const WorkerSlice& slice : device.profile().slices) passes.push_back(slice.pass);
  EXPECT_FALSE(passes.empty());
  EXPECT_EQ(std::count(passes.begin(), passes.end(), passes.front()),
            static_cast<std::ptrdiff_t>(passes.size()));
}

TEST(Profiled, NestedGroupsAreThoseOfTheSession) {
  for (const bool recorded : {false, true}) {
    DeviceOptions options;
    options.profile = Profile::dispatches;
    const Device device = Device::open("cpu", options).value();
    const KernelId kernel =
        device.kernels()
            .add({.name = "own", .slots = "x", .cpu = [](const KernelArgs&) noexcept {}})
            .value();
    const Buffer buffer = device.allocate(64).value();
    const GraphExecutor executor(device);
    GraphSession s = recorded ? executor.begin_recorded() : executor.begin();
    const auto encode = [&](const char* label) {
      Dispatch d = make_dispatch(Op::custom);
      d.kernel = kernel;
      d.label = label;
      d.bind(buffer.view(), Access::read_write);
      s.encode(d);
    };
    encode("a");
    s.begin_group("layer 0");
    encode("b");
    s.begin_group("attention");
    encode("c");
    s.end_group();
    s.begin_group("mlp");
    encode("d");
    s.end_group();
    encode("e");
    s.end_group();
    encode("f");
    s.begin_group("open");  // ends with the session
    encode("g");
    std::vector<std::string> steps;
    if (recorded) {
      const Plan plan = s.compile().value();
      for (const PlanStep& step : plan.steps()) steps.push_back(step.group);
      EXPECT_NE(plan.to_json().find("\"group\":\"layer 0/mlp\""), std::string::npos);
      ASSERT_TRUE(plan.run());
    } else {
      ASSERT_TRUE(s.finish());
    }
    std::vector<std::string> groups;
    for (const DispatchSample& sample : device.profile().samples) groups.push_back(sample.group);
    const std::vector<std::string> want{
        "", "layer 0", "layer 0/attention", "layer 0/mlp", "layer 0", "", "open"};
    EXPECT_EQ(groups, want);
    if (recorded) {
      EXPECT_EQ(steps, want);
    }
  }
}

TEST(Profiled, GroupsThatCannotNestAreErrors) {
  const Device device = Device::open("null").value();
  const auto error = [&](auto use) {
    GraphSession s = GraphExecutor(device).begin_recorded();
    use(s);
    const Status status = s.status();
    return status ? ErrorCode::internal : status.error().code;
  };
  EXPECT_EQ(error([](GraphSession& s) { s.end_group(); }), ErrorCode::invalid_state);
  EXPECT_EQ(error([](GraphSession& s) { s.begin_group(""); }), ErrorCode::invalid_argument);
  EXPECT_EQ(error([](GraphSession& s) { s.begin_group("a/b"); }), ErrorCode::invalid_argument);
}

TEST(Profiled, StepsAgreeWithTheReport) {
  for (const bool fuse : {true, false}) {
    SCOPED_TRACE(fuse);
    const Profiled p = run_block(1, fuse);
    ASSERT_EQ(p.steps.size(), p.plan.dispatches + p.plan.fences);
    std::size_t edges = 0;
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < p.steps.size(); ++i) {
      const PlanStep& step = p.steps[i];
      edges += step.after.size();
      if (i > 0) {
        EXPECT_GE(step.level, p.steps[i - 1].level);
      }
      for (const std::uint32_t before : step.after) EXPECT_LT(p.steps[before].level, step.level);
      for (const PlanStep::ArenaUse& use : step.arena) {
        EXPECT_LT(use.begin, use.end);
        end = std::max(end, use.end);
      }
    }
    EXPECT_EQ(edges, p.plan.edges);
    EXPECT_EQ(p.steps.back().level + 1, p.plan.levels);
    EXPECT_GT(end, 0u);
    EXPECT_LE(end, p.plan.arena_bytes);
    // Samples are in the order of the steps.
    ASSERT_GE(p.report.samples.size(), p.steps.size());
    for (std::size_t i = 0; i < p.steps.size(); ++i) {
      EXPECT_EQ(p.report.samples[i].index, p.steps[i].index);
      EXPECT_EQ(p.report.samples[i].name, p.steps[i].kernel);
    }
  }
  EXPECT_TRUE(Plan().steps().empty());
}

}  // namespace
}  // namespace onepass::profile_test
