// One test per counter rule.
#include <gtest/gtest.h>

#include <thread>

#include "support/devices.h"

namespace onepass::counters_test {
namespace {

class CounterRules : public ::testing::Test {
 protected:
  void SetUp() override { compat::reset_counters(); }
  // Two dispatches that conflict: b0 -> b1 -> b2.
  template <class E>
  void chain(E& encoder) {
    encoder.encode(test::custom(io_, {b_[0], b_[1]}));
    encoder.encode(test::custom(io_, {b_[1], b_[2]}));
  }
  void independent(CommandEncoder& encoder) {
    encoder.encode(test::custom(io_, {b_[0], b_[1]}));
    encoder.encode(test::custom(io_, {b_[2], b_[3]}));
  }
  ComputeGraph captured_chain() {
    CommandEncoder encoder(device_);
    encoder.start_capture();
    chain(encoder);
    return *encoder.take_capture();
  }

  Device device_ = *Device::open("null");
  KernelId io_ = test::add_kernel(device_, "io", test::nothing, "io");
  test::Buffers b_{device_};
};

TEST_F(CounterRules, DispatchesCountEncodeCallsAlsoWhileCapturing) {
  CommandEncoder encoder(device_);
  chain(encoder);
  EXPECT_EQ(compat::dispatch_count(), 2u);
  captured_chain();
  EXPECT_EQ(compat::dispatch_count(), 4u);
  EXPECT_EQ(device_.counters().dispatches, 4u);
}

TEST_F(CounterRules, ReplayCountsApart) {
  const ComputeGraph g = captured_chain();
  compat::reset_counters();
  device_.reset_counters();
  compat::CommandEncoder encoder(device_), first(device_), second(device_);
  encoder.replay_dispatch(io_, {{0, {.view = b_[0]}}, {1, {.view = b_[1]}}}, {}, {1, 1, 1},
                          {1, 1, 1}, DispatchKind::threads);
  ASSERT_TRUE(g.encode_sequential(encoder.native()));
  ASSERT_TRUE(g.encode_with_barriers(encoder.native()));
  ASSERT_TRUE(g.encode_dual_buffer(first.native(), second.native()));
  EXPECT_EQ(compat::dispatch_count(), 0u);
  EXPECT_EQ(device_.counters().replayed_dispatches, 7u);

  GraphSession s = GraphExecutor(device_).begin_recorded();
  chain(s);
  const Plan plan = *s.compile();
  compat::reset_counters();
  device_.reset_counters();
  ASSERT_TRUE(plan.run());
  ASSERT_TRUE(plan.run());
  EXPECT_EQ(compat::dispatch_count(), 0u);
  EXPECT_EQ(device_.counters().replayed_dispatches, 4u);
}

TEST_F(CounterRules, BarriersCountOnlyWhenGiven) {
  CommandEncoder encoder(device_);
  encoder.memory_barrier();
  encoder.fence();
  EXPECT_EQ(compat::barrier_count(), 0u);  // nothing before it
  encoder.start_capture();
  encoder.memory_barrier();
  encoder.fence();
  EXPECT_EQ(compat::barrier_count(), 0u);  // captured, not given
  encoder.take_capture();
  independent(encoder);
  encoder.memory_barrier();
  EXPECT_EQ(compat::barrier_count(), 1u);
  encoder.force_barrier_and_reset_tracker();
  EXPECT_EQ(compat::barrier_count(), 2u);
}

TEST_F(CounterRules, BarriersCountAtReplay) {
  const ComputeGraph g = captured_chain();
  CommandEncoder encoder(device_);
  ASSERT_TRUE(g.encode_with_barriers(encoder));
  EXPECT_EQ(compat::barrier_count(), 1u);
  // A plan's barriers count where the device is given any.
  for (const bool levels : {true, false}) {
    const Device device =
        test::open_with(std::make_unique<ShuffleBackend>(ShuffleOptions{.use_levels = levels}));
    const KernelId io = test::add_kernel(device, "io", test::nothing, "io");
    test::Buffers b(device);
    GraphSession s = GraphExecutor(device).begin_recorded();
    s.encode(test::custom(io, {b[0], b[1]}));
    s.encode(test::custom(io, {b[1], b[2]}));
    const Plan plan = *s.compile();
    compat::reset_counters();
    ASSERT_TRUE(plan.run());
    ASSERT_TRUE(plan.run());
    EXPECT_EQ(compat::barrier_count(), levels ? 2u : 0u);
    EXPECT_EQ(plan.report().order, levels ? OrderKind::levels : OrderKind::edges);
    EXPECT_EQ(plan.report().edges_issued, levels ? 0u : 1u);
    EXPECT_EQ(plan.report().barriers, 1u);
  }
}

TEST_F(CounterRules, AFailedRunCountsNothing) {
  test::FaultDevice d;
  const KernelId io = test::add_kernel(d.device, "io", test::nothing, "io");
  test::Buffers b(d.device);
  GraphSession s = GraphExecutor(d.device).begin_recorded();
  s.encode(test::custom(io, {b[0], b[1]}));
  const Plan plan = *s.compile();
  d.fault->arm({.call = BackendCall::submit});
  EXPECT_FALSE(plan.run());
  EXPECT_EQ(d.device.counters().replayed_dispatches, 0u);
}

TEST_F(CounterRules, SyncsCountEveryFormThatWaits) {
  compat::CommandEncoder encoder(device_);
  std::uint64_t expected = 0;
  const auto one_more = [&](const char* form) {
    EXPECT_EQ(compat::sync_count(), ++expected) << form;
  };
  ASSERT_TRUE(encoder.commit_and_wait());
  one_more("commit_and_wait");
  ASSERT_TRUE(encoder.commit_and_wait_labeled("x"));
  one_more("commit_and_wait_labeled");
  ASSERT_TRUE(encoder.commit_wait_with_gpu_time());
  one_more("commit_wait_with_gpu_time");
  ASSERT_TRUE(encoder.commit());
  EXPECT_EQ(compat::sync_count(), expected);  // commit alone does not wait
  ASSERT_TRUE(encoder.wait_until_completed());
  one_more("commit, wait_until_completed");
  ASSERT_TRUE(encoder.wait_until_completed());
  EXPECT_EQ(compat::sync_count(), expected);  // it was waited for already
  ASSERT_TRUE(device_.fence());
  one_more("fence");
}

TEST_F(CounterRules, EveryFinishFormIsOneSync) {
  const auto begin = std::chrono::steady_clock::now();
  const compat::GraphExecutor executor(device_);
  std::uint64_t expected = 0;
  for (const bool recorded : {false, true}) {
    for (int form = 0; form < 8; ++form) {
      compat::GraphSession s = recorded ? executor.begin_recorded() : executor.begin();
      for (int i = 0; i < 100; ++i) s.encode(test::custom(io_, {b_[0], b_[1]}));
      const Result<FinishReport> report = form == 0   ? s.finish()
                                          : form == 1 ? s.finish_with_timing(begin)
                                          : form == 2 ? s.finish_with_fusion()
                                          : form == 3 ? s.finish_with_fusion_and_timing(begin)
                                          : form == 4 ? s.finish_with_fusion_and_reorder()
                                          : form == 5
                                              ? s.finish_with_fusion_reorder_and_timing(begin)
                                          : form == 6 ? s.finish_optimized()
                                                      : s.finish_optimized_with_timing(begin);
      ASSERT_TRUE(test::is_ok(report)) << form;
      EXPECT_EQ(compat::sync_count(), ++expected) << form;
    }
  }
}

TEST_F(CounterRules, CommandBuffersCountWhenTaken) {
  {
    CommandEncoder unused(device_);
    EXPECT_EQ(compat::cmd_buf_count(), 0u);  // taken with the first command
  }
  CommandEncoder encoder(device_);
  chain(encoder);
  EXPECT_EQ(compat::cmd_buf_count(), 1u);
  ASSERT_TRUE(encoder.commit_and_wait());
  EXPECT_EQ(compat::cmd_buf_count(), 1u);
  ASSERT_TRUE(encoder.commit_and_wait());  // empty, but submitted
  EXPECT_EQ(compat::cmd_buf_count(), 2u);
  compat::GraphSession s = compat::GraphExecutor(device_).begin_recorded();
  for (int i = 0; i < 100; ++i) s.encode(test::custom(io_, {b_[0], b_[1]}));
  EXPECT_EQ(compat::cmd_buf_count(), 2u);  // recording takes none
  ASSERT_TRUE(s.finish_optimized());
  EXPECT_EQ(compat::cmd_buf_count(), 4u);
}

TEST_F(CounterRules, AutomaticChecksCountOncePerDispatch) {
  CommandEncoder encoder(device_);
  independent(encoder);
  EXPECT_EQ(compat::auto_barrier_count(), 0u);
  EXPECT_EQ(compat::auto_barrier_concurrent_count(), 2u);
  chain(encoder);  // b0 -> b1 was written before, b1 -> b2 reads it
  EXPECT_EQ(compat::auto_barrier_count(), 2u);
  EXPECT_EQ(compat::auto_barrier_concurrent_count(), 2u);
  EXPECT_EQ(compat::barrier_count(), 2u);
  EXPECT_DOUBLE_EQ(device_.counters().elision_rate(), 0.5);
  captured_chain();
  EXPECT_EQ(compat::auto_barrier_count() + compat::auto_barrier_concurrent_count(), 4u);
}

TEST_F(CounterRules, ElisionRateOfNothingIsZero) {
  EXPECT_DOUBLE_EQ(device_.counters().elision_rate(), 0.0);
}

TEST_F(CounterRules, ManualModeChecksNothing) {
  const Device manual = *Device::open("null", {.barriers = Barriers::manual});
  const KernelId io = test::add_kernel(manual, "io", test::nothing, "io");
  const Buffer a = *manual.allocate(64);
  CommandEncoder encoder(manual);
  encoder.encode(test::custom(io, {a.view(), a.view()}));
  encoder.encode(test::custom(io, {a.view(), a.view()}));
  const Counters c = manual.counters();
  EXPECT_EQ(c.automatic_barriers + c.elided_barriers + c.barriers, 0u);
}

TEST_F(CounterRules, BarrierTimeNeedsTheOption) {
  for (const bool timed : {false, true}) {
    const Device device = *Device::open("null", {.time_barriers = timed});
    const KernelId io = test::add_kernel(device, "io", test::nothing, "io");
    const Buffer a = *device.allocate(64);
    compat::reset_counters();
    CommandEncoder encoder(device);
    for (int i = 0; i < 200; ++i) encoder.encode(test::custom(io, {a.view(), a.view()}));
    EXPECT_EQ(compat::barrier_count(), 199u);
    EXPECT_EQ(compat::barrier_total_ns() != 0, timed);  // automatic barriers too
  }
}

TEST_F(CounterRules, ResetZeroesOneDeviceOrTheProcess) {
  const Device other = *Device::open("null");
  CommandEncoder encoder(device_), elsewhere(other);
  chain(encoder);
  ASSERT_TRUE(elsewhere.commit_and_wait());
  device_.reset_counters();
  EXPECT_EQ(device_.counters().dispatches, 0u);
  EXPECT_EQ(other.counters().syncs, 1u);
  EXPECT_EQ(compat::dispatch_count(), 2u);  // the process remembers
  EXPECT_EQ(compat::sync_count(), 1u);
  compat::reset_counters();
  EXPECT_EQ(compat::dispatch_count(), 0u);
  EXPECT_EQ(other.counters().syncs, 1u);  // and devices their own
}

TEST_F(CounterRules, ClosedDevicesStayInTheTotals) {
  {
    const Device gone = *Device::open("null");
    CommandEncoder encoder(gone);
    ASSERT_TRUE(encoder.commit_and_wait());
  }
  EXPECT_EQ(compat::sync_count(), 1u);
}

TEST_F(CounterRules, TotalsAddUpOverThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      const Device device = *Device::open("null");
      const KernelId noop = test::add_kernel(device, "noop", test::nothing);
      CommandEncoder encoder(device);
      for (int i = 0; i < 50; ++i) encoder.encode(test::custom(noop, {}));
      EXPECT_TRUE(encoder.commit_and_wait());
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(compat::dispatch_count(), 200u);
  EXPECT_EQ(compat::cmd_buf_count(), 4u);
}

}  // namespace
}  // namespace onepass::counters_test
