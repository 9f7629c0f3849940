// The ten ways to finish a session, direct and recorded, and their errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "core/os.h"
#include "onepass/ops.h"
#include "support/compat_forms.h"

namespace onepass::finish_test {
namespace {

using compat::GraphSession;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

using test::links;
using test::Program;
using Form = test::FinishForm;

class FinishForms : public ::testing::TestWithParam<Form> {};

TEST_P(FinishForms, RecordedRunsThePassesItNames) {
  const Form& form = GetParam();
  const Device device = test::open_cpu();
  Program program(device);
  const Clock::time_point begin = Clock::now();
  GraphSession s = compat::GraphExecutor(device).begin_recorded();
  program.record(s);
  const Result<FinishReport> report = form.finish(s, begin);
  const auto wall = std::chrono::nanoseconds(Clock::now() - begin).count();
  ASSERT_TRUE(test::is_ok(report));
  program.expect_results();
  EXPECT_EQ(report->fused.count, form.fuses ? 1u : 0u);
  EXPECT_EQ(report->dispatches, Program::dispatches - (form.fuses ? 1 : 0));
  EXPECT_EQ(report->moved != 0, form.reorders);
  EXPECT_EQ(report->submissions, form.command_buffers);
  // The second chain joins the first one's levels only where the order may change.
  const std::uint32_t levels = report->barrier_count() + report->submissions;
  EXPECT_LE(levels, form.reorders ? links + 1 : 2 * links + 2);
  EXPECT_GE(levels, form.reorders ? links : 2 * links - 1);
  EXPECT_GT(report->encode_ns, 0u);
  EXPECT_GT(report->wait_ns, 0u);
  EXPECT_LE(report->encode_ns + report->wait_ns, static_cast<std::uint64_t>(wall));
}

TEST_P(FinishForms, DirectRunsNoPass) {
  const Device device = test::open_cpu();
  Program program(device);
  GraphSession s = compat::GraphExecutor(device).begin();
  EXPECT_FALSE(s.is_recording());
  program.record(s);
  const Result<FinishReport> report = GetParam().finish(s, Clock::now());
  ASSERT_TRUE(test::is_ok(report));
  program.expect_results();
  EXPECT_EQ(report->fused.count, 0u);
  EXPECT_EQ(report->moved, 0u);
  EXPECT_EQ(report->barrier_count(), 0u);
  EXPECT_EQ(report->submissions, 1u);
  EXPECT_GT(report->wait_ns, 0u);
  EXPECT_TRUE(report->submission.is_done());
}

TEST_P(FinishForms, GiveTheSameBits) {
  const Device device = test::open_cpu();
  Program direct(device), recorded(device);
  GraphSession a = compat::GraphExecutor(device).begin();
  direct.record(a);
  ASSERT_TRUE(a.finish());
  GraphSession b = compat::GraphExecutor(device).begin_recorded();
  recorded.record(b);
  ASSERT_TRUE(GetParam().finish(b, Clock::now()));
  EXPECT_EQ(direct.normed(), recorded.normed());
}

TEST_P(FinishForms, ATakenListLeavesADirectSession) {
  const Device device = test::open_cpu();
  Program program(device);
  GraphSession s = compat::GraphExecutor(device).begin_recorded();
  EXPECT_TRUE(s.is_recording());
  program.record(s);
  const ComputeGraph taken = s.encoder_mut().take_capture().value();
  EXPECT_FALSE(s.is_recording());
  ASSERT_TRUE(taken.encode_sequential(s.encoder_mut().native()));
  const Result<FinishReport> report = GetParam().finish(s, Clock::now());
  ASSERT_TRUE(test::is_ok(report));
  EXPECT_EQ(report->fused.count, 0u);
  EXPECT_EQ(report->dispatches, 0u);
  program.expect_results();
}

TEST_P(FinishForms, AnErrorWhileRecordingRunsNothing) {
  test::FaultDevice d;
  Program program(d.device);
  GraphSession s = compat::GraphExecutor(d.device).begin_recorded();
  program.record(s);
  const Tensor none{};
  s.gelu(none, none);
  const auto report = GetParam().finish(s, Clock::now());
  EXPECT_EQ(report.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(report.error().file, HasSubstr("finish_test.cpp"));
  EXPECT_EQ(d.fault->calls(BackendCall::submit), 0u);
}

TEST_P(FinishForms, ABuildErrorRunsNothingAndGivesEverythingBack) {
  test::FaultDevice d(FaultOptions{}, {.command_buffers = 2});
  Program program(d.device);
  const std::uint64_t live = d.device.live_bytes();
  {
    GraphSession s = compat::GraphExecutor(d.device).begin_recorded();
    program.record(s);
    d.fault->arm({.call = BackendCall::record});
    EXPECT_EQ(GetParam().finish(s, Clock::now()).error().code, ErrorCode::kernel_build);
    EXPECT_EQ(d.fault->calls(BackendCall::submit), 0u);
    EXPECT_EQ(s.status().error().code, ErrorCode::invalid_state);
  }
  d.fault->disarm();
  // Both command buffers are free again, and scratch went back to the cache.
  GraphSession s = compat::GraphExecutor(d.device).begin_recorded();
  program.record(s);
  ASSERT_TRUE(test::is_ok(GetParam().finish(s, Clock::now())));
  program.expect_results();
  EXPECT_LE(d.device.live_bytes(), live + 4096);
}

TEST_P(FinishForms, AFailedSubmissionIsReturned) {
  test::FaultDevice d({.hold = true});
  Program program(d.device);
  GraphSession s = compat::GraphExecutor(d.device).begin_recorded();
  program.record(s);
  d.fault->arm({.call = BackendCall::wait});
  const auto report = GetParam().finish(s, Clock::now());
  EXPECT_EQ(report.error().code, ErrorCode::submission_failed);
  EXPECT_TRUE(report.error().is_transient());
  EXPECT_TRUE(d.device.take_errors().empty());  // it was reported
}

INSTANTIATE_TEST_SUITE_P(All, FinishForms, ::testing::ValuesIn(test::finish_forms()),
                         [](const auto& test_info) { return std::string(test_info.param.name); });

class Finish : public ::testing::Test {
 protected:
  void record(GraphSession& s, int n, KernelId kernel, test::Buffers& b) {
    for (int i = 0; i < n; ++i) s.encode(test::custom(kernel, {b[0], b[1]}));
  }
  struct Faulty {
    test::FaultDevice d;
    KernelId reads;
    test::Buffers b;
    explicit Faulty(const FaultOptions& faults = {}, const DeviceOptions& options = {})
        : d(faults, options),
          reads(test::add_kernel(d.device, "reads", test::nothing, "ii")),
          b(d.device) {}
    GraphSession recorded(int n) {
      GraphSession s = compat::GraphExecutor(d.device).begin_recorded();
      for (int i = 0; i < n; ++i) s.encode(test::custom(reads, {b[0], b[1]}));
      return s;
    }
  };
};

TEST_F(Finish, CommitDoesNotWait) {
  for (const bool is_recorded : {false, true}) {
    test::FaultDevice d({.hold = true});
    Program program(d.device);
    const compat::GraphExecutor executor(d.device);
    GraphSession s = is_recorded ? executor.begin_recorded() : executor.begin();
    program.record(s);
    const Result<Submission> submission = s.commit("async");
    ASSERT_TRUE(test::is_ok(submission));
    EXPECT_FALSE(submission->is_done());
    EXPECT_EQ(submission->label(), "async");
    EXPECT_EQ(d.fault->calls(BackendCall::wait), 0u);
    EXPECT_EQ(s.status().error().code, ErrorCode::invalid_state);
    d.fault->release_held();
    ASSERT_TRUE(submission->wait());
    program.expect_results();
  }
}

TEST_F(Finish, RecordedBarriersStayOrAreRecomputed) {
  const Device device = *Device::open("null", {.barriers = Barriers::manual});
  const KernelId io = test::add_kernel(device, "io", test::nothing, "io");
  test::Buffers b(device);
  const auto record = [&](bool conflicting, bool barrier) {
    GraphSession s = compat::GraphExecutor(device).begin_recorded();
    s.encode(test::custom(io, {b[0], b[1]}));
    if (barrier) s.encoder_mut().memory_barrier();
    s.encode(test::custom(io, {b[conflicting ? 1 : 2], b[3]}));
    return s;
  };
  EXPECT_EQ(record(false, true).finish()->barrier_count(), 1u);
  EXPECT_EQ(record(false, true).finish_with_fusion()->barrier_count(), 0u);
  EXPECT_EQ(record(true, false).finish()->barrier_count(), 0u);
  EXPECT_EQ(record(true, false).finish_with_fusion()->barrier_count(), 1u);
  EXPECT_EQ(record(true, false).finish_with_fusion_and_reorder()->barrier_count(), 1u);
}

TEST_F(Finish, FencesSurviveEveryForm) {
  const Device device = *Device::open("null");
  const KernelId io = test::add_kernel(device, "io", test::nothing, "io");
  test::Buffers b(device);
  for (const Form& form : test::finish_forms()) {
    GraphSession s = compat::GraphExecutor(device).begin_recorded();
    s.encode(test::custom(io, {b[0], b[1]}));
    s.barrier();
    s.encode(test::custom(io, {b[2], b[3]}));
    EXPECT_EQ(form.finish(s, Clock::now())->barrier_count(), 1u) << form.name;
  }
}

TEST_F(Finish, OptimizedSubmitsTenPercentEarly) {
  const struct {
    int total;
    std::uint32_t first, submissions;
  } cases[] = {{30, 30, 1}, {64, 64, 1}, {65, 64, 2}, {709, 70, 2}};
  for (const auto& c : cases) {
    auto owned = std::make_unique<NullBackend>();
    NullBackend* null = owned.get();
    const Device device = test::open_with(std::move(owned));
    const KernelId reads = test::add_kernel(device, "reads", test::nothing, "ii");
    test::Buffers b(device);
    GraphSession s = compat::GraphExecutor(device).begin_recorded();
    record(s, c.total, reads, b);
    EXPECT_EQ(s.finish_optimized()->submissions, c.submissions);
    ASSERT_EQ(null->recordings().size(), c.submissions);
    EXPECT_EQ(null->recordings()[0].launches, c.first);
    if (c.submissions == 2) {
      EXPECT_EQ(null->recordings()[1].launches, static_cast<std::uint32_t>(c.total) - c.first);
    }
  }
}

TEST_F(Finish, TheFirstPartIsAsLargeAsAsked) {
  const struct {
    std::uint32_t min, percent, first;
  } cases[] = {{5, 0, 5}, {5, 50, 20}, {64, 10, 40}};
  for (const auto& c : cases) {
    auto owned = std::make_unique<NullBackend>();
    NullBackend* null = owned.get();
    const Device device = test::open_with(std::move(owned));
    const KernelId reads = test::add_kernel(device, "reads", test::nothing, "ii");
    test::Buffers b(device);
    GraphSession s = compat::GraphExecutor(device).begin_recorded();
    record(s, 40, reads, b);
    FinishOptions options;
    options.command_buffers = 2;
    options.first_min = c.min;
    options.first_percent = c.percent;
    ASSERT_TRUE(test::is_ok(s.finish(options)));
    ASSERT_FALSE(null->recordings().empty());
    EXPECT_EQ(null->recordings()[0].launches, c.first);
  }
}

TEST_F(Finish, WithoutWaitItReturnsAtOnce) {
  Faulty f({.hold = true});
  FinishOptions options;
  options.wait = false;
  options.label = "layer";
  GraphSession s = f.recorded(3);
  const Result<FinishReport> report = s.finish(options);
  ASSERT_TRUE(test::is_ok(report));
  EXPECT_EQ(f.d.fault->calls(BackendCall::wait), 0u);
  EXPECT_FALSE(report->submission.is_done());
  EXPECT_EQ(report->submission.label(), "layer");
  f.d.fault->release_held();
  EXPECT_TRUE(report->submission.wait());
}

TEST_F(Finish, EncodeTimeBeginsWhereAsked) {
  const Device device = *Device::open("null");
  const auto finish = [&](Clock::time_point begin) {
    GraphSession s = compat::GraphExecutor(device).begin_recorded();
    return s.finish_with_timing(begin)->encode_ns;
  };
  using std::chrono::seconds;
  EXPECT_GE(finish(Clock::now() - seconds(5)), 5'000'000'000u);
  EXPECT_EQ(finish(Clock::now() + seconds(5)), 0u);
  GraphSession s = compat::GraphExecutor(device).begin_recorded();
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_GE(s.finish()->encode_ns, 3'000'000u);  // by default from begin()
}

TEST_F(Finish, EncodeAndWaitAddUpToWallTime) {
  Faulty f;
  GraphSession s = f.recorded(200);
  const Clock::time_point begin = Clock::now() - std::chrono::seconds(10);
  const FinishReport r = *s.finish_optimized_with_timing(begin);
  const auto wall =
      static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
  EXPECT_LE(r.encode_ns + r.wait_ns, wall);
  EXPECT_GE(r.encode_ns + r.wait_ns + 1'000'000'000, wall);  // however busy the machine
  EXPECT_GT(r.overlap_ns, 0u);
  EXPECT_LE(r.overlap_ns, r.wait_ns);
  EXPECT_GT(r.fuse_ns, 0u);
  EXPECT_GT(r.reorder_ns, 0u);
  EXPECT_GT(r.record_ns, 0u);
  EXPECT_LE(r.fuse_ns + r.reorder_ns + r.record_ns, r.encode_ns);
}

TEST_F(Finish, ErrorsOfEitherCommandBufferAreReported) {
  for (const std::uint64_t failing : {1u, 2u}) {
    Faulty f({.hold = true});
    GraphSession s = f.recorded(100);
    f.d.fault->arm({.call = BackendCall::wait, .nth = failing});
    FinishOptions options;
    options.command_buffers = 2;
    options.label = "layer";
    const Error e = s.finish(options).error();
    EXPECT_EQ(e.code, ErrorCode::submission_failed);
    EXPECT_THAT(e.message, HasSubstr("'layer'"));
    EXPECT_THAT(e.message, HasSubstr("submission " + std::to_string(failing)));
    EXPECT_THAT(e.message, HasSubstr("injected failure"));
  }
}

TEST_F(Finish, ErrorsOfBothCommandBuffersAreReported) {
  Faulty f({.hold = true});
  GraphSession s = f.recorded(100);
  f.d.fault->arm({.call = BackendCall::wait, .persistent = true});
  const Error e = s.finish_optimized().error();
  EXPECT_THAT(e.message, HasSubstr("submission 1"));
  EXPECT_THAT(e.message, HasSubstr("submission 2"));
}

TEST_F(Finish, ARefusedSecondSubmissionWaitsForTheFirst) {
  Faulty f;
  GraphSession s = f.recorded(100);
  f.d.fault->arm({.call = BackendCall::submit, .nth = 2});
  EXPECT_EQ(s.finish_optimized().error().code, ErrorCode::submission_failed);
  EXPECT_EQ(f.d.device.counters().syncs, 1u);
  // Nothing is held: the same program runs again.
  GraphSession again = f.recorded(100);
  EXPECT_TRUE(test::is_ok(again.finish_optimized()));
}

TEST_F(Finish, WithoutASecondCommandBufferNothingRuns) {
  Faulty f({}, {.command_buffers = 2});
  {
    compat::CommandEncoder other(f.d.device);
    other.encode(f.reads, {{0, f.b[0]}, {1, f.b[1]}}, {1, 1, 1}, {1, 1, 1});
    GraphSession s = f.recorded(100);
    EXPECT_EQ(s.finish_optimized().error().code, ErrorCode::limit);
    EXPECT_EQ(f.d.fault->calls(BackendCall::submit), 0u);
  }
  GraphSession s = f.recorded(100);
  EXPECT_TRUE(test::is_ok(s.finish_optimized()));
}

TEST_F(Finish, AFinishedSessionSaysSo) {
  const Device device = *Device::open("null");
  GraphSession s = compat::GraphExecutor(device).begin_recorded();
  ASSERT_TRUE(s.finish());
  const Tensor t = s.scratch(DType::f32, {4});
  EXPECT_FALSE(t);
  s.gelu(t, t);
  s.barrier();
  s.encoder_mut().memory_barrier();
  EXPECT_EQ(s.finish().error().code, ErrorCode::invalid_state);
  EXPECT_EQ(s.status().error().code, ErrorCode::invalid_state);
  EXPECT_EQ(s.encoder_mut().commit().error().code, ErrorCode::invalid_state);
  EXPECT_EQ(s.compile().error().code, ErrorCode::invalid_state);
  EXPECT_EQ(s.device().info().name, "null");
  EXPECT_FALSE(s.is_recording());
}

TEST_F(Finish, BadOptionsAreRefused) {
  Faulty f;
  FinishOptions options;
  options.command_buffers = 3;
  EXPECT_EQ(f.recorded(1).finish(options).error().code, ErrorCode::invalid_argument);
}

TEST_F(Finish, ReportHasWhatTheDumpsPrinted) {
  Faulty f;
  GraphSession s = f.recorded(10);
  CapturedNode unknown;
  unknown.dispatch = test::custom(test::add_kernel(f.d.device, "any", test::nothing), {});
  ComputeGraph graph = *s.encoder_mut().take_capture();
  ASSERT_TRUE(graph.record(f.d.device, unknown));
  const ReorderReport moved = *graph.reorder(Policy::exact);
  EXPECT_EQ(moved.dispatches, 11u);
  EXPECT_EQ(moved.unannotated, 1u);
  GraphSession plain = f.recorded(10);
  const FinishReport r = *plain.finish_with_fusion_and_reorder();
  EXPECT_EQ(r.dispatches, 10u);
  EXPECT_EQ(r.unannotated, 0u);
  EXPECT_THAT(r.group_sizes, ElementsAre(0, 0, 0, 0, 0, 0, 0, 1));
}

TEST_F(Finish, GreedyPolicyIsSelectable) {
  const Device device = *Device::open("null");
  const KernelId io = test::add_kernel(device, "io", test::nothing, "io");
  test::Buffers b(device);
  const std::size_t chains[4][2] = {{0, 1}, {1, 2}, {3, 4}, {4, 5}};
  // The greedy policy moves nothing past attention.
  for (const bool attends : {false, true}) {
    GraphSession s = compat::GraphExecutor(device).begin_recorded();
    for (const auto& [r, w] : chains) {
      if (attends && r == 3) s.encoder_mut().set_op_kind(CapturedOpKind::sdpa);
      s.encode(test::custom(io, {b[r], b[w]}));
    }
    FinishOptions options;
    options.policy = Policy::greedy64;
    const FinishReport report = *s.finish(options);
    EXPECT_EQ(report.moved, attends ? 0u : 2u);
    EXPECT_EQ(report.barrier_count(), attends ? 2u : 1u);
  }
}

TEST_F(Finish, ExecutorAndSessionKnowTheirDevice) {
  const Device device = *Device::open("null");
  const compat::GraphExecutor executor(device);
  EXPECT_EQ(&executor.device().state(), &device.state());
  EXPECT_EQ(&executor.begin().device().state(), &device.state());
}

// A device that takes the first part only when the second one was recorded, or after a while.
class Meeting final : public NullBackend {
 public:
  Meeting() : NullBackend(cpu_kernel_rows()) {}
  bool met = false;

  Result<std::unique_ptr<Recorded>> record(const Recording& r, const Order& order) override {
    auto recorded = NullBackend::record(r, order);
    const std::lock_guard lock(mutex_);
    ++recorded_;
    changed_.notify_all();
    return recorded;
  }
  Status submit(Recorded& recorded, std::span<const std::byte> step, Completion& done) override {
    {
      std::unique_lock lock(mutex_);
      if (submitted_++ == 0) {
        met = changed_.wait_for(lock, std::chrono::milliseconds(os::sanitized ? 5000 : 1000),
                                [&] { return recorded_ >= 2; });
      }
    }
    return NullBackend::submit(recorded, step, done);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int recorded_ = 0, submitted_ = 0;
};

TEST(TwoParts, AWorkerEncodesTheSecondPartWhileTheFirstIsTaken) {
  for (const bool worker : {true, false}) {
    auto backend = std::make_unique<Meeting>();
    Meeting& meeting = *backend;
    const Device device = test::open_with(std::move(backend));
    const Buffer b = *device.allocate(4);
    onepass::GraphSession s = onepass::GraphExecutor(device).begin_recorded();
    for (int i = 0; i < 8; ++i) {
      const Tensor t = b.tensor(DType::f32, {1, 1});
      ops::scale(s, {.x = t, .out = t, .factor = 2.0f});
    }
    const auto report =
        s.finish({.command_buffers = 2, .first_min = 4, .encode_on_worker = worker});
    ASSERT_TRUE(test::is_ok(report));
    EXPECT_EQ(report->submissions, 2u);
    EXPECT_EQ(meeting.met, worker);
    EXPECT_GT(report->overlap_ns, 0u);
  }
}

}  // namespace
}  // namespace onepass::finish_test
