// Who keeps what alive, and for how long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "onepass/backends/cpu.h"
#include "robust/programs.h"
#include "support/heap.h"

namespace onepass::test::lifetime_test {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t n = 1024;
constexpr std::uint64_t bytes = n * sizeof(float);

Tensor of(const Buffer& b) { return b.tensor(DType::f32, {n}); }

std::vector<float> ramp(float scale) {
  std::vector<float> values(n);
  for (std::uint32_t i = 0; i < n; ++i) values[i] = scale * static_cast<float>(i);
  return values;
}

struct Late : FaultyDevice {
  explicit Late(Retain retain = Retain::submission)
      : FaultyDevice({.backend = {CpuOptions{.threads = 1}}, .retain = retain}, {.hold = true}),
        executor(device) {}

  GraphExecutor executor;
  Buffer buffer(float scale = 0) {
    Buffer b = device.allocate(bytes).value();
    EXPECT_TRUE(device.write_as<float>(b.view(), ramp(scale)));
    return b;
  }
  // out = a + a, submitted and held back.
  Submission twice(const Buffer& a, const Buffer& out) {
    GraphSession s = executor.begin();
    ops::add(s, {.a = of(a), .b = of(a), .out = of(out)});
    return s.commit("twice").value();
  }
};

TEST(Lifetime, MemoryFreedInFlightStaysUntilCompletion) {
  Late late;
  Buffer a = late.buffer(1.5f);
  const Buffer out = late.buffer();
  const BufferId id = a.id();
  const Submission s = late.twice(a, out);
  ASSERT_EQ(late.fault->held(), 1u);
  const std::int64_t allocated = late.ledger->allocations.load();
  a.reset();
  EXPECT_TRUE(late.device.state().is_live(id));  // the submission's
  EXPECT_EQ(late.ledger->allocations.load(), allocated);
  // New memory does not take its place while the pass still reads it.
  std::vector<Buffer> others;
  for (int i = 0; i < 8; ++i) others.push_back(late.device.allocate(bytes).value());
  EXPECT_FALSE(s.is_done());
  ASSERT_TRUE(s.wait());
  std::vector<float> got(n);
  ASSERT_TRUE(late.device.read_as<float>(out.view(), got));
  EXPECT_EQ(got, ramp(3.0f));
  EXPECT_FALSE(late.device.state().is_live(id));
  EXPECT_EQ(late.ledger->allocations.load(), allocated - 1 + 8);
}

TEST(Lifetime, PlansHoldNoBuffersButTheirRunsDo) {
  Late late;
  Buffer a = late.buffer(1.5f);
  const Buffer out = late.buffer();
  GraphSession s = late.executor.begin_recorded();
  ops::add(s, {.a = of(a), .b = of(a), .out = of(out)});
  const Plan plan = s.compile().value();
  EXPECT_EQ(late.device.state().references(a.id()), 1u);
  const Submission run = plan.run_async().value();
  const std::int64_t allocated = late.ledger->allocations.load();
  a.reset();
  EXPECT_EQ(late.ledger->allocations.load(), allocated);
  const Result<Submission> again = plan.run_async();
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::stale);
  EXPECT_THAT(again.error().message, HasSubstr("freed"));
  ASSERT_TRUE(run.wait());
  EXPECT_EQ(late.ledger->allocations.load(), allocated - 1);
  std::vector<float> got(n);
  ASSERT_TRUE(late.device.read_as<float>(out.view(), got));
  EXPECT_EQ(got, ramp(3.0f));
}

// The same slot, the same address: still another buffer.
TEST(Lifetime, AReusedAddressIsStale) {
  FaultyDevice faulty({.backend = {CpuOptions{.threads = 1}}});
  faulty.ledger->reuses = true;
  const Device& device = faulty.device;
  const GraphExecutor executor(device);
  Buffer a = device.allocate(bytes).value();
  const Buffer out = device.allocate(bytes).value();
  const BufferId old = a.id();
  const View view = a.view();
  GraphSession s = executor.begin_recorded();
  ops::add(s, {.a = of(a), .b = of(a), .out = of(out)});
  const Plan plan = s.compile().value();
  ASSERT_TRUE(plan.run());
  const std::byte* address = device.map(view).value().data();
  a.reset();
  ASSERT_TRUE(device.fence());
  const Buffer same = device.allocate(bytes).value();
  EXPECT_EQ(device.map(same.view()).value().data(), address);
  EXPECT_EQ(same.id().index, old.index);
  EXPECT_NE(same.id(), old);
  std::vector<float> values(n);
  for (const Status& status :
       {plan.run(), device.read_as<float>(view, values), device.write_as<float>(view, values)}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::stale);
  }
  const auto mapped = device.map(view);
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code, ErrorCode::stale);
  GraphSession direct = executor.begin();
  ops::add(direct, {.a = tensor(view, DType::f32, {n}), .b = of(out), .out = of(out)});
  const Result<FinishReport> report = direct.finish();
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::stale);
  EXPECT_THAT(report.error().file, HasSubstr("lifetime_test.cpp"));
}

TEST(Lifetime, ARecycledPoolBufferIsStaleForOldViews) {
  FaultyDevice faulty({.backend = {CpuOptions{.threads = 1}}});
  BufferPool pool(faulty.device);
  Buffer a = pool.take(bytes).value();
  const Buffer out = faulty.device.allocate(bytes).value();
  GraphSession s = GraphExecutor(faulty.device).begin_recorded();
  ops::add(s, {.a = of(a), .b = of(a), .out = of(out)});
  const Plan plan = s.compile().value();
  ASSERT_TRUE(plan.run());
  const BufferId old = a.id();
  a.reset();
  pool.reset();
  const Buffer again = pool.take(bytes).value();
  EXPECT_EQ(again.id().index, old.index);
  EXPECT_NE(again.id(), old);
  const Status status = plan.run();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::stale);
}

TEST(Lifetime, APoolKeepsWhatAPassStillUses) {
  Late late;
  BufferPool pool(late.device);
  const Buffer out = late.buffer();
  Buffer a = pool.take(bytes).value();
  ASSERT_TRUE(late.device.write_as<float>(a.view(), ramp(2.0f)));
  const Submission s = late.twice(a, out);
  a.reset();
  pool.reset();
  EXPECT_EQ(pool.in_use_count(), 1u);
  EXPECT_EQ(pool.free_count(), 0u);
  ASSERT_TRUE(s.wait());
  pool.reset();
  EXPECT_EQ(pool.free_count(), 1u);
}

TEST(Lifetime, ASubmissionRetainsItsBuffers) {
  Late late;
  const Buffer out = late.buffer();
  BufferId id;
  Submission s;
  {
    const Buffer a = late.buffer(0.5f);
    id = a.id();
    s = late.twice(a, out);
    EXPECT_EQ(late.device.state().references(id), 2u);
  }
  EXPECT_EQ(late.device.state().references(id), 1u);
  ASSERT_TRUE(s.wait());
  EXPECT_EQ(late.device.state().references(id), 0u);
  EXPECT_EQ(late.device.state().references(out.id()), 1u);
}

// A recording holds its buffers until it is finished or dropped.
TEST(Lifetime, ARecordingRetainsItsBuffers) {
  Late late;
  const Buffer out = late.buffer();
  for (const bool finished : {false, true}) {
    Buffer a = late.buffer(0.5f);
    const BufferId id = a.id();
    GraphSession s = late.executor.begin_recorded();
    ops::add(s, {.a = of(a), .b = of(a), .out = of(out)});
    a.reset();
    EXPECT_EQ(late.device.state().references(id), 1u);
    if (finished) {
      ASSERT_TRUE(s.finish());
      std::vector<float> got(n);
      ASSERT_TRUE(late.device.read_as<float>(out.view(), got));
      EXPECT_EQ(got, ramp(1.0f));
    } else {
      s = late.executor.begin();
    }
    EXPECT_EQ(late.device.state().references(id), 0u);
  }
}

// The caller promised to keep the buffers: no references, and a remark when the promise is broken.
// The memory itself still waits for the pass.
TEST(Lifetime, RetainCallerCountsNothing) {
  std::vector<std::string> remarks;
  FaultyDevice faulty(
      {.backend = {CpuOptions{.threads = 1}},
       .retain = Retain::caller,
       .log = [&](std::string_view category, std::string_view) { remarks.emplace_back(category); }},
      {.hold = true});
  const GraphExecutor executor(faulty.device);
  for (const bool broken : {false, true}) {
    Buffer a = faulty.device.allocate(bytes).value();
    const Buffer out = faulty.device.allocate(bytes).value();
    ASSERT_TRUE(faulty.device.write_as<float>(a.view(), ramp(2.0f)));
    GraphSession s = executor.begin();
    ops::add(s, {.a = of(a), .b = of(a), .out = of(out)});
    const Submission submission = s.commit().value();
    EXPECT_EQ(faulty.device.state().references(a.id()), 1u);
    const std::int64_t allocated = faulty.ledger->allocations.load();
    if (broken) a.reset();
    EXPECT_EQ(faulty.ledger->allocations.load(), allocated);
    ASSERT_TRUE(submission.wait());
    std::vector<float> got(n);
    ASSERT_TRUE(faulty.device.read_as<float>(out.view(), got));
    EXPECT_EQ(got, ramp(4.0f));
    if (!broken) {
      EXPECT_TRUE(remarks.empty());
    }
  }
#ifndef NDEBUG
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_EQ(remarks[0], "retain");
#endif
}

TEST(Lifetime, ASubmissionOutlivesItsDeviceHandle) {
  const std::int64_t heap_at_start = warm_heap();
  std::shared_ptr<Ledger> ledger;
  {
    Submission s;
    {
      Late late;
      ledger = late.ledger;
      const Buffer a = late.buffer(1.0f), out = late.buffer();
      s = late.twice(a, out);
    }
    EXPECT_GT(ledger->allocations.load(), 0);
    EXPECT_FALSE(s.is_done());
    EXPECT_TRUE(s.wait());
    EXPECT_TRUE(s.is_done());
    EXPECT_EQ(s.label(), "twice");
  }
  EXPECT_EQ(ledger->allocations.load(), 0);
  ledger.reset();
  EXPECT_EQ(heap_live(), heap_at_start);
}

// The last handle goes while passes are queued: they run, and everything is given back.
TEST(Lifetime, TheDeviceHandleIsDroppedWithPassesInFlight) {
  const std::int64_t heap_at_start = warm_heap();
  for (const bool by_plan : {false, true}) {
    std::vector<float> host(n);
    std::shared_ptr<Ledger> ledger;
    {
      Late late;
      ledger = late.ledger;
      const Buffer a = late.buffer(1.0f);
      const Buffer out = late.device.import_host(std::as_writable_bytes(std::span(host))).value();
      if (by_plan) {
        GraphSession s = late.executor.begin_recorded();
        const Tensor t = s.scratch(DType::f32, {n});
        ops::add(s, {.a = of(a), .b = of(a), .out = t});
        ops::add(s, {.a = t, .b = of(out), .out = of(out)});
        const Plan plan = s.compile().value();
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(plan.run_async());
        EXPECT_EQ(late.fault->held(), 3u);
      } else {
        for (int i = 0; i < 3; ++i) late.twice(a, out);
        EXPECT_EQ(late.fault->held(), 3u);
      }
      EXPECT_EQ(host[7], 0.0f);
    }
    EXPECT_EQ(host, ramp(by_plan ? 6.0f : 2.0f));
    EXPECT_EQ(ledger->allocations.load(), 0);
  }
  EXPECT_EQ(heap_live(), heap_at_start);
}

TEST(Lifetime, BuffersOutliveTheDeviceHandle) {
  std::shared_ptr<Ledger> ledger;
  Buffer kept;
  {
    FaultyDevice faulty({.backend = {CpuOptions{.threads = 1}}});
    ledger = faulty.ledger;
    kept = faulty.device.allocate(bytes).value();
  }
  EXPECT_EQ(ledger->allocations.load(), 1);
  const Buffer shared = kept.share();
  kept.reset();
  EXPECT_TRUE(shared);
  EXPECT_EQ(ledger->allocations.load(), 1);
}

TEST(Lifetime, APlanOutlivesExecutorStepStateAndHandle) {
  Plan plan;
  {
    FaultyDevice faulty({.backend = {CpuOptions{.threads = 1}}});
    const test::Block block = test::Block::create(faulty.device, tiny_block(), 3).value();
    {
      GraphSession s = GraphExecutor(faulty.device).begin_recorded();
      block.forward(s);
      plan = s.compile({.step = &block.step()}).value();
    }
    ASSERT_TRUE(plan.run(SingleStep(1, 0).values()));
    ASSERT_TRUE(plan.run());
  }
  for (const Status& status : {plan.run(), plan.run(SingleStep(1, 0).values())}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::stale);
  }
}

// Replays queued one behind the other: each one sees what the one before wrote.
TEST(Lifetime, QueuedReplaysSeeEachOther) {
  Late late;
  const Buffer a = late.buffer(1.0f), out = late.buffer();
  GraphSession s = late.executor.begin_recorded();
  ops::add(s, {.a = of(out), .b = of(a), .out = of(out)});
  const Plan plan = s.compile().value();
  std::vector<Submission> queued;
  for (int i = 0; i < 20; ++i) queued.push_back(plan.run_async().value());
  EXPECT_EQ(late.fault->held(), 20u);
  std::thread([&] { EXPECT_TRUE(queued[9].wait()); }).join();
  EXPECT_TRUE(queued[3].is_done());
  EXPECT_FALSE(queued[10].is_done());
  ASSERT_TRUE(queued.back().wait());
  std::vector<float> got(n);
  ASSERT_TRUE(late.device.read_as<float>(out.view(), got));
  EXPECT_EQ(got, ramp(20.0f));
}

}  // namespace
}  // namespace onepass::test::lifetime_test
