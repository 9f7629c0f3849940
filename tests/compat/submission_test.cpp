// Submissions: waiting, dropping, errors, labels; profiles of submissions and dispatches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <thread>
#include <vector>

#include "onepass/backends/cpu.h"
#include "support/devices.h"

namespace onepass::submission_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Log {
  std::mutex mutex;
  std::vector<std::string> lines;
  auto callback() {
    return [this](std::string_view category, std::string_view text) {
      const std::lock_guard lock(mutex);
      lines.push_back(std::string(category) + ": " + std::string(text));
    };
  }
};

class Submissions : public ::testing::Test {
 protected:
  Submission commit(std::string_view label = {}) {
    compat::CommandEncoder encoder(d_.device);
    encoder.encode(kernel_, {{0, in_.view()}, {1, out_.view()}}, {1, 1, 1}, {1, 1, 1});
    return label.empty() ? *encoder.commit() : *encoder.commit_labeled(label);
  }
  float result() { return test::read_floats(d_.device, out_.view())[0]; }

  Log log_;
  test::FaultDevice d_{{.hold = true}, {.log = log_.callback()}};
  KernelId kernel_ = test::add_kernel(d_.device, "add_one", test::add_one, "io");
  Buffer in_ = test::floats(d_.device, {41.0f});
  Buffer out_ = test::floats(d_.device, {0.0f});
};

TEST_F(Submissions, WaitManyTimesSameResult) {
  const Submission s = commit();
  EXPECT_FALSE(s.is_done());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(s.wait());
  const Submission copy = s;
  EXPECT_TRUE(copy.wait());
  EXPECT_TRUE(copy.is_done());
  EXPECT_EQ(result(), 42.0f);
}

// Held submissions run when they are waited for, with those before them.
TEST_F(Submissions, WhatOneMadeIsReadWhileTheNextIsHeld) {
  const Buffer token = *d_.device.allocate(4, {.kind = MemoryKind::readback});
  const Submission first = commit();
  Submission second;
  {
    compat::CommandEncoder encoder(d_.device);
    encoder.encode(kernel_, {{0, out_.view()}, {1, token.view()}}, {1, 1, 1}, {1, 1, 1});
    second = *encoder.commit();
  }
  const Submission third = commit();
  EXPECT_EQ(d_.fault->held(), 3u);
  float value = 0.0f;
  ASSERT_TRUE(first.read_as<float>(out_.view(), {&value, 1}));
  EXPECT_EQ(value, 42.0f);
  EXPECT_EQ(d_.fault->held(), 2u);
  EXPECT_FALSE(second.is_done());
  ASSERT_TRUE(second.read_as<float>(token.view(), {&value, 1}));
  EXPECT_EQ(value, 43.0f);
  EXPECT_EQ(d_.fault->held(), 1u);
  EXPECT_EQ(d_.fault->calls(BackendCall::wait), 2u);
  EXPECT_EQ(d_.fault->calls(BackendCall::read), 0u);
  ASSERT_TRUE(first.read_as<float>(out_.view(), {&value, 1})) << "any number of times";
  EXPECT_EQ(d_.fault->calls(BackendCall::wait), 2u);
  EXPECT_TRUE(third.wait());
}

TEST_F(Submissions, ReadingSaysWhatIsWrongBeforeItWaits) {
  std::array<std::byte, 8> bytes{};
  EXPECT_EQ(Submission().read(out_.view(), bytes).error().code, ErrorCode::invalid_state);
  const Submission s = commit();
  EXPECT_EQ(s.read(View{{77, 1}, 0, 8}, bytes).error().code, ErrorCode::stale);
  EXPECT_EQ(s.read(View{out_.view().buffer, 0, 4}, bytes).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(s.read(View{out_.view().buffer, 1u << 20, 8}, bytes).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(d_.fault->calls(BackendCall::wait), 0u);
  d_.fault->arm({.call = BackendCall::wait});
  const Status failed = s.read(out_.view(), std::span(bytes).first(4));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().to_string(), s.wait().error().to_string());
  EXPECT_EQ(bytes[0], std::byte{0});
}

TEST_F(Submissions, HostAccessWaitsOnceForAllThatIsInFlight) {
  for (int access = 0; access < 3; ++access) {
    std::vector<Submission> submissions;
    for (int i = 0; i < 4; ++i) submissions.push_back(commit());
    const std::uint64_t waits = d_.fault->calls(BackendCall::wait);
    std::array<std::byte, 4> bytes{};
    if (access == 0) {
      EXPECT_TRUE(d_.device.read(out_.view(), bytes));
    }
    if (access == 1) {
      EXPECT_TRUE(d_.device.write(out_.view(), bytes));
    }
    if (access == 2) {
      EXPECT_TRUE(d_.device.map(out_.view()));
    }
    EXPECT_EQ(d_.fault->calls(BackendCall::wait) - waits, 1u) << access;
    EXPECT_EQ(d_.fault->held(), 0u);
    for (const Submission& s : submissions) EXPECT_TRUE(s.is_done());
  }
}

TEST_F(Submissions, AFailureIsTheSameEveryTime) {
  d_.fault->arm({.call = BackendCall::wait});
  const Submission s = commit("bad");
  const std::string first = s.wait().error().to_string();
  EXPECT_EQ(s.wait().error().to_string(), first);
  EXPECT_FALSE(s.gpu_time_ns());
}

TEST_F(Submissions, ErrorsCarryLabelIndexAndDriverText) {
  ASSERT_TRUE(commit().wait());
  d_.fault->arm({.call = BackendCall::wait});
  const Error e = commit("layer 7").wait().error();
  EXPECT_EQ(e.code, ErrorCode::submission_failed);
  EXPECT_TRUE(e.is_transient());
  EXPECT_THAT(e.message, HasSubstr("submission 2"));
  EXPECT_THAT(e.message, HasSubstr("'layer 7'"));
  EXPECT_THAT(e.message, HasSubstr("injected failure of wait"));
}

TEST_F(Submissions, DroppingNeitherWaitsNorCancels) {
  commit();
  EXPECT_EQ(d_.fault->calls(BackendCall::wait), 0u);
  EXPECT_EQ(d_.fault->held(), 1u);
  d_.fault->release_held();
  ASSERT_TRUE(d_.device.fence());
  EXPECT_EQ(result(), 42.0f);
}

TEST_F(Submissions, RetainTheirBuffers) {
  Buffer own = test::floats(d_.device, {1.0f});
  const std::uint64_t live = d_.device.live_bytes();
  Submission s;
  {
    compat::CommandEncoder encoder(d_.device);
    encoder.encode(kernel_, {{0, own.view()}, {1, out_.view()}}, {1, 1, 1}, {1, 1, 1});
    s = *encoder.commit();
  }
  own.reset();
  EXPECT_EQ(d_.device.live_bytes(), live);
  ASSERT_TRUE(s.wait());
  EXPECT_EQ(result(), 2.0f);
  ASSERT_TRUE(d_.device.fence());
  EXPECT_LT(d_.device.live_bytes(), live);
}

TEST_F(Submissions, AnErrorNobodyWaitedForIsLoggedAndKept) {
  d_.fault->arm({.call = BackendCall::wait});
  commit("lost");
  ASSERT_TRUE(d_.device.fence());
  const std::vector<Error> errors = d_.device.take_errors();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, ErrorCode::submission_failed);
  EXPECT_THAT(errors[0].message, HasSubstr("'lost'"));
  EXPECT_THAT(d_.device.take_errors(), IsEmpty());
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_THAT(log_.lines[0], HasSubstr("submission: "));
  EXPECT_THAT(log_.lines[0], HasSubstr("'lost'"));
}

TEST_F(Submissions, AnErrorSomebodyWaitedForIsNotReportedTwice) {
  d_.fault->arm({.call = BackendCall::wait});
  EXPECT_FALSE(commit("seen").wait());
  EXPECT_THAT(d_.device.take_errors(), IsEmpty());
  EXPECT_THAT(log_.lines, IsEmpty());
}

TEST_F(Submissions, LabeledCommitReportsItsError) {
  compat::CommandEncoder encoder(d_.device);
  d_.fault->arm({.call = BackendCall::submit});
  EXPECT_EQ(encoder.commit_labeled("x").error().code, ErrorCode::submission_failed);
  EXPECT_TRUE(encoder.commit_and_wait_labeled("x"));
}

TEST_F(Submissions, WaitBeforeCommitIsATypedError) {
  compat::CommandEncoder encoder(d_.device);
  EXPECT_EQ(encoder.wait_until_completed().error().code, ErrorCode::invalid_state);
  EXPECT_EQ(Submission().wait().error().code, ErrorCode::invalid_state);
  EXPECT_FALSE(Submission().is_done());
  ASSERT_TRUE(encoder.commit());
  EXPECT_TRUE(encoder.wait_until_completed());
}

TEST_F(Submissions, LabelsAreKept) {
  EXPECT_EQ(commit("prefill").label(), "prefill");
  EXPECT_EQ(commit().label(), "");
  EXPECT_EQ(Submission().label(), "");
}

TEST_F(Submissions, GpuTimeIsASpanInSeconds) {
  compat::CommandEncoder encoder(d_.device);
  encoder.encode(kernel_, {{0, in_.view()}, {1, out_.view()}}, {1, 1, 1}, {1, 1, 1});
  const compat::GpuTime t = *encoder.commit_wait_with_gpu_time();
  EXPECT_GT(t.start_s, 0.0);
  EXPECT_GE(t.end_s, t.start_s);
  const Submission s = commit();
  const GpuSpan span = *s.gpu_span();
  EXPECT_EQ(*s.gpu_time_ns(), span.end_ns - span.start_ns);
  EXPECT_GE(static_cast<double>(span.start_ns) * 1e-9, t.end_s);
}

TEST_F(Submissions, PlansGiveThemToo) {
  GraphSession s = GraphExecutor(d_.device).begin_recorded();
  s.encode(test::custom(kernel_, {in_.view(), out_.view()}));
  const Plan plan = *s.compile({.label = "step"});
  const Submission a = *plan.run_async(), b = *plan.run_async();
  EXPECT_FALSE(a.is_done());
  EXPECT_EQ(a.label(), "step");
  EXPECT_TRUE(b.wait());
  EXPECT_TRUE(a.wait());
  EXPECT_EQ(result(), 42.0f);
}

TEST_F(Submissions, MayBeWaitedForFromManyThreads) {
  const Submission s = commit();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([s] { EXPECT_TRUE(s.wait()); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(result(), 42.0f);
}

// Keeps the device busy for a while.
void spin(const KernelArgs& a) noexcept {
  volatile std::uint32_t* word = a.ptr<std::uint32_t>(0);
  for (int i = 0; i < 20000; ++i) word[0] = word[0] + 1;
}

class Profiles : public ::testing::Test {
 protected:
  static Device open(Profile profile, bool serial = false) {
    return test::open_cpu(
        {.backend = {CpuOptions{.threads = 1}}, .serial = serial, .profile = profile});
  }
};

TEST_F(Profiles, EveryDispatchOfALongPassIsSampled) {
  constexpr std::uint32_t n = 5000;
  const Device device = open(Profile::dispatches);
  const KernelId noop = test::add_kernel(device, "noop", test::nothing, "i");
  const Buffer b = *device.allocate(64);
  const compat::GraphExecutor executor(device);
  const auto fill = [&](onepass::GraphSession& s) {
    for (std::uint32_t i = 0; i < n; ++i) s.encode(test::custom(noop, {b.view()}));
  };
  const auto expect_all = [&](const char* what) {
    const ProfileReport report = device.profile();
    EXPECT_EQ(report.dropped, 0u) << what;
    ASSERT_EQ(report.samples.size(), n) << what;
    std::vector<bool> seen(n);
    for (const DispatchSample& s : report.samples) {
      ASSERT_LT(s.index, n);
      seen[s.index] = true;
      EXPECT_LE(s.start_ns, s.end_ns);
      EXPECT_EQ(s.label, what);
      EXPECT_EQ(s.name, "noop");
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), n) << what;
    device.reset_profile();
  };
  compat::GraphSession direct = executor.begin();
  fill(direct);
  ASSERT_TRUE(direct.commit("direct")->wait());
  expect_all("direct");

  compat::GraphSession replayed = executor.begin_recorded();
  fill(replayed);
  FinishOptions options;
  options.label = "replayed";
  const FinishReport report = *replayed.finish(options);
  EXPECT_EQ(report.samples, n);
  EXPECT_EQ(report.samples_dropped, 0u);
  expect_all("replayed");

  compat::GraphSession planned = executor.begin_recorded();
  fill(planned);
  const Plan plan = *planned.compile({.label = "plan"});
  ASSERT_TRUE(plan.run());
  expect_all("plan");
}

TEST_F(Profiles, SamplesLieInTheSubmissionAndAddUp) {
  const Device device = open(Profile::dispatches, true);
  const KernelId kernel = test::add_kernel(device, "spin", spin, "x");
  const Buffer b = *device.allocate(64);
  CommandEncoder encoder(device);
  bool adds_up = false;  // a busy machine may take time away between two dispatches
  for (int attempt = 0; attempt < 20 && !adds_up; ++attempt) {
    device.reset_profile();
    for (int i = 0; i < 20; ++i) encoder.encode(test::custom(kernel, {b.view()}));
    const Submission s = *encoder.commit("spin");
    const GpuSpan span = *s.gpu_span();
    const std::uint64_t whole = span.end_ns - span.start_ns;
    const ProfileReport report = device.profile();
    ASSERT_EQ(report.samples.size(), 20u);
    std::uint64_t sum = 0;
    for (const DispatchSample& d : report.samples) {
      EXPECT_GE(d.start_ns, span.start_ns);
      EXPECT_LE(d.end_ns, span.end_ns);
      sum += d.end_ns - d.start_ns;
    }
    EXPECT_LE(sum, whole);
    adds_up = 10 * sum >= 9 * whole;
    ASSERT_EQ(report.submissions.size(), 1u);
    EXPECT_EQ(report.submissions[0].total_ns, whole);
  }
  EXPECT_TRUE(adds_up);
}

TEST_F(Profiles, LabelsAreSummedAndSortedByTotal) {
  const Device device = open(Profile::submissions);
  const KernelId kernel = test::add_kernel(device, "spin", spin, "x");
  const Buffer b = *device.allocate(64);
  CommandEncoder encoder(device);
  const auto pass = [&](const char* label, int n) {
    for (int i = 0; i < n; ++i) encoder.encode(test::custom(kernel, {b.view()}));
    ASSERT_TRUE(encoder.commit_and_wait(label));
  };
  pass("a short one", 1);
  pass("long", 20);
  pass("long", 10);
  const ProfileReport report = device.profile();
  ASSERT_EQ(report.submissions.size(), 2u);
  EXPECT_GE(report.submissions[0].total_ns, report.submissions[1].total_ns);
  for (const LabelTimes& t : report.submissions) {
    EXPECT_EQ(t.count, t.label == "long" ? 2u : 1u);
    EXPECT_EQ(t.total_ns, t.label == "long" ? t.min_ns + t.max_ns : t.min_ns);
    EXPECT_LE(t.min_ns, t.max_ns);
    EXPECT_GT(t.min_ns, 0u);
  }
  EXPECT_THAT(report.samples, IsEmpty());  // submissions only
  device.reset_profile();
  EXPECT_THAT(device.profile().submissions, IsEmpty());
}

TEST_F(Profiles, DispatchesCarryNameKindAndLabel) {
  const Device device = open(Profile::dispatches);
  const Buffer x = test::floats(device, {1, 2}), y = *device.allocate(8);
  onepass::GraphSession s = GraphExecutor(device).begin_recorded();
  const Tensor in = x.tensor(DType::f32, {1, 2}), out = y.tensor(DType::f32, {1, 2});
  ops::softmax(s, {.x = in, .out = out});
  s.set_label("blk.3.act");
  s.encoder().set_op_kind(CapturedOpKind::sdpa);
  ops::gelu(s, {.x = out, .out = out});
  ASSERT_TRUE(s.commit("token")->wait());
  const auto samples = device.profile().samples;
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].name, "softmax_f32");
  EXPECT_EQ(samples[0].kind, CapturedOpKind::softmax);
  EXPECT_EQ(samples[0].index, 0u);
  EXPECT_EQ(samples[1].name, "blk.3.act");
  EXPECT_EQ(samples[1].kind, CapturedOpKind::sdpa);
  EXPECT_EQ(samples[1].index, 1u);
  EXPECT_EQ(samples[1].label, "token");
}

TEST_F(Profiles, LabelsOutliveTheirExecutor) {
  test::FaultDevice d({.hold = true}, {.profile = Profile::dispatches});
  const KernelId noop = test::add_kernel(d.device, "noop", test::nothing);
  Submission submission;
  Plan plan;
  {
    const GraphExecutor executor(d.device);
    for (const bool planned : {false, true}) {
      GraphSession s = executor.begin_recorded();
      s.set_label("a label too long for the small-string buffer");
      s.encode(test::custom(noop, {}));
      planned ? void(plan = *s.compile()) : void(submission = *s.commit());
    }
  }
  ASSERT_TRUE(submission.wait());
  ASSERT_TRUE(plan.run());
  const auto samples = d.device.profile().samples;
  ASSERT_EQ(samples.size(), 2u);
  for (const DispatchSample& s : samples) {
    EXPECT_EQ(s.name, "a label too long for the small-string buffer");
  }
}

TEST_F(Profiles, SamplesAreGroupedByLabelInOrderOfAppearance) {
  const Device device = open(Profile::dispatches);
  const KernelId noop = test::add_kernel(device, "noop", test::nothing);
  CommandEncoder encoder(device);
  for (const char* label : {"b", "a", "b"}) {
    encoder.encode(test::custom(noop, {}));
    ASSERT_TRUE(encoder.commit_and_wait(label));
  }
  std::vector<std::string> labels;
  for (const DispatchSample& s : device.profile().samples) labels.push_back(s.label);
  EXPECT_THAT(labels, ElementsAre("b", "b", "a"));
}

TEST_F(Profiles, AnAsyncCommitStaysAsync) {
  for (const Profile profile : {Profile::submissions, Profile::dispatches}) {
    test::FaultDevice d({.hold = true}, {.profile = profile});
    const KernelId noop = test::add_kernel(d.device, "noop", test::nothing);
    compat::CommandEncoder encoder(d.device);
    encoder.encode(noop, {}, {1, 1, 1}, {1, 1, 1});
    const Submission s = *encoder.commit_labeled("async");
    EXPECT_FALSE(s.is_done());
    EXPECT_EQ(d.fault->calls(BackendCall::wait), 0u);
    EXPECT_EQ(d.device.counters().syncs, 0u);
    d.fault->release_held();
    ASSERT_TRUE(d.device.fence());
    EXPECT_EQ(d.device.profile().submissions.size(), 1u);
  }
}

TEST_F(Profiles, WhatWasNotSampledIsCounted) {
  test::FaultDevice d({}, {.profile = Profile::dispatches});
  const KernelId noop = test::add_kernel(d.device, "noop", test::nothing);
  GraphSession s = GraphExecutor(d.device).begin_recorded();
  for (int i = 0; i < 3; ++i) s.encode(test::custom(noop, {}));
  d.fault->arm({.call = BackendCall::timestamps});
  const FinishReport report = *s.finish();
  EXPECT_EQ(report.samples, 0u);
  EXPECT_EQ(report.samples_dropped, 3u);
  EXPECT_EQ(d.device.profile().dropped, 3u);
}

TEST_F(Profiles, NothingIsKeptWithoutTheOption) {
  const Device device = open(Profile::none);
  const KernelId noop = test::add_kernel(device, "noop", test::nothing);
  CommandEncoder encoder(device);
  encoder.encode(test::custom(noop, {}));
  ASSERT_TRUE(encoder.commit_and_wait("x"));
  EXPECT_THAT(device.profile().submissions, IsEmpty());
  EXPECT_THAT(device.profile().samples, IsEmpty());
  EXPECT_EQ(device.options().profile, Profile::none);
  EXPECT_EQ(open(Profile::submissions).options().profile, Profile::submissions);
  EXPECT_EQ(open(Profile::dispatches).options().profile, Profile::dispatches);
}

}  // namespace
}  // namespace onepass::submission_test
