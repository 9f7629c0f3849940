#include "support/backends/fault.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "onepass/backends/cpu.h"
#include "support/recordings.h"

namespace onepass {
namespace {

using testing::OrderedRecording;

std::unique_ptr<Backend> cpu(std::uint32_t threads = 1) {
  DeviceOptions options;
  options.backend = {CpuOptions{.threads = threads}};
  return make_cpu_backend(options);
}

// Appends the step value to a list when it runs.
struct Runs {
  std::vector<std::uint64_t> values;
  Runs() { values.reserve(100); }
};
void run_kernel(const KernelArgs& a) noexcept {
  static_cast<Runs*>(a.user)->values.push_back(*a.ptr<const std::uint64_t>(0));
}

struct Fixture {
  explicit Fixture(FaultOptions options = {}, std::uint32_t threads = 1)
      : fault(cpu(threads), std::move(options)) {
    memory = fault.inner().allocate(8, MemoryKind::device, true).value();
    OrderedRecording r = testing::one_launch(row);
    r.step = BoundView{memory, 0, 8};
    r.launches[0].n_views = 1;
    r.launches[0].views[0] = r.step;
    recording = r;
    recorded = testing::record(fault.inner(), r).value();
  }
  ~Fixture() {
    recorded.reset();
    fault.inner().release(memory);
  }
  Status submit(std::uint64_t value, Completion& completion) {
    return fault.submit(*recorded, std::as_bytes(std::span(&value, 1)), completion);
  }

  Runs runs;
  KernelRow row{.name = "append", .code = run_kernel, .user = &runs};
  FaultBackend fault;
  Allocation memory;
  OrderedRecording recording;
  std::unique_ptr<Recorded> recorded;
};

// One call of each kind that can return an error.
Status call(Fixture& f, BackendCall kind) {
  std::array<std::byte, 8> bytes{};
  Completion completion;
  switch (kind) {
    case BackendCall::allocate: {
      Result<Allocation> a = f.fault.allocate(16, MemoryKind::device, true);
      if (!a) return a.error();
      f.fault.release(*a);
      return {};
    }
    case BackendCall::write:
      return f.fault.write(f.memory, 0, bytes);
    case BackendCall::read:
      return f.fault.read(f.memory, 0, bytes);
    case BackendCall::map: {
      Result<std::byte*> p = f.fault.map(f.memory);
      return p ? Status{} : Status{p.error()};
    }
    case BackendCall::record: {
      auto r = testing::record(f.fault, f.recording);
      return r ? Status{} : Status{r.error()};
    }
    case BackendCall::submit:
      return f.submit(1, completion);
    default: {  // wait
      ONEPASS_TRY(f.fault.inner().submit(*f.recorded, {}, completion));
      f.fault.wait(completion);
      EXPECT_TRUE(completion.done);
      if (!completion.failed) return {};
      return make_error(completion.code, completion.text);
    }
  }
}

class FaultCalls : public ::testing::TestWithParam<BackendCall> {};

TEST_P(FaultCalls, TheNthFailsOnce) {
  Fixture f;
  f.fault.arm({.call = GetParam(), .nth = 3});
  for (int i = 1; i <= 6; ++i) {
    const Status status = call(f, GetParam());
    ASSERT_EQ(status.has_value(), i != 3) << i;
    if (i != 3) continue;
    const ErrorCode expected = GetParam() == BackendCall::allocate ? ErrorCode::out_of_memory
                               : GetParam() == BackendCall::record ? ErrorCode::kernel_build
                                                                   : ErrorCode::submission_failed;
    EXPECT_EQ(status.error().code, expected);
    EXPECT_NE(status.error().message.find("injected"), std::string::npos);
  }
  EXPECT_EQ(f.fault.calls(GetParam()), 6u);
}

TEST_P(FaultCalls, PersistentFaultsLastUntilDisarmed) {
  Fixture f(
      {.faults = {
           {.call = GetParam(), .nth = 2, .persistent = true, .code = ErrorCode::device_lost}}});
  EXPECT_TRUE(call(f, GetParam()));
  for (int i = 0; i < 3; ++i) {
    const Status status = call(f, GetParam());
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::device_lost);
  }
  f.fault.disarm();
  EXPECT_TRUE(call(f, GetParam()));
}

TEST_P(FaultCalls, OtherKindsAreNotTouched) {
  Fixture f;
  f.fault.arm({.call = GetParam(), .persistent = true});
  for (const BackendCall other :
       {BackendCall::allocate, BackendCall::write, BackendCall::read, BackendCall::map,
        BackendCall::record, BackendCall::submit, BackendCall::wait}) {
    EXPECT_EQ(call(f, other).has_value(), other != GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FaultCalls,
                         ::testing::Values(BackendCall::allocate, BackendCall::write,
                                           BackendCall::read, BackendCall::map, BackendCall::record,
                                           BackendCall::submit, BackendCall::wait));

TEST(Fault, AFailedSubmitRunsNothing) {
  Fixture f;
  f.fault.arm({.call = BackendCall::submit, .nth = 2});
  std::array<Completion, 3> c;
  EXPECT_TRUE(f.submit(1, c[0]));
  EXPECT_FALSE(f.submit(2, c[1]));
  EXPECT_FALSE(c[1].done);
  EXPECT_TRUE(f.submit(3, c[2]));
  EXPECT_EQ(f.runs.values, (std::vector<std::uint64_t>{1, 3}));
}

TEST(Fault, HeldSubmissionsRunWhenReleasedWithTheirOwnValues) {
  Fixture f({.hold = true});
  std::array<Completion, 3> c;
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(f.submit(10 + i, c[i]));
  EXPECT_EQ(f.fault.held(), 3u);
  EXPECT_TRUE(f.runs.values.empty());
  for (Completion& completion : c) EXPECT_FALSE(f.fault.poll(completion));
  f.fault.release_held();
  EXPECT_EQ(f.fault.held(), 0u);
  for (Completion& completion : c) EXPECT_TRUE(f.fault.poll(completion));
  EXPECT_EQ(f.runs.values, (std::vector<std::uint64_t>{10, 11, 12}));
}

TEST(Fault, WaitReleasesUpToItsSubmission) {
  Fixture f({.hold = true});
  std::array<Completion, 3> c;
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(f.submit(i, c[i]));
  f.fault.wait(c[1]);
  EXPECT_TRUE(c[0].done && c[1].done);
  EXPECT_FALSE(c[2].done);
  EXPECT_EQ(f.runs.values, (std::vector<std::uint64_t>{0, 1}));
  f.fault.set_hold(false);
  EXPECT_TRUE(c[2].done);
}

TEST(Fault, WaitCanBlockUntilReleased) {
  Fixture f({.hold = true, .wait_releases = false}, 2);
  Completion c;
  ASSERT_TRUE(f.submit(7, c));
  std::atomic<bool> returned{false};
  std::thread waiter([&] {
    f.fault.wait(c);
    returned = true;
  });
  while (f.fault.calls(BackendCall::wait) == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(returned);
  EXPECT_EQ(f.fault.held(), 1u);
  f.fault.release_held();
  waiter.join();
  EXPECT_TRUE(c.done);
  EXPECT_EQ(f.runs.values, (std::vector<std::uint64_t>{7}));
}

TEST(Fault, AHeldSubmissionThatFailsNeverRuns) {
  Fixture f({.hold = true});
  f.fault.arm({.call = BackendCall::wait});
  std::array<Completion, 2> c;
  ASSERT_TRUE(f.submit(1, c[0]));
  ASSERT_TRUE(f.submit(2, c[1]));
  f.fault.wait(c[1]);
  EXPECT_FALSE(c[0].failed);
  EXPECT_TRUE(c[1].done && c[1].failed);
  EXPECT_EQ(c[1].code, ErrorCode::submission_failed);
  EXPECT_NE(std::string(c[1].text).find("wait"), std::string::npos);
  f.fault.wait(c[1]);  // the same result again
  EXPECT_TRUE(c[1].failed);
  EXPECT_EQ(f.runs.values, (std::vector<std::uint64_t>{1}));
}

TEST(Fault, ALostDeviceFailsEverythingThatIsNotDone) {
  Fixture f;
  std::array<Completion, 2> c;
  ASSERT_TRUE(f.submit(1, c[0]));
  f.fault.wait(c[0]);
  f.fault.set_hold(true);
  ASSERT_TRUE(f.submit(2, c[1]));
  f.fault.lose_device();
  f.fault.wait(c[1]);
  EXPECT_TRUE(c[1].done && c[1].failed);
  EXPECT_EQ(c[1].code, ErrorCode::device_lost);
  f.fault.wait(c[0]);
  EXPECT_FALSE(c[0].failed);
  for (const BackendCall kind : {BackendCall::allocate, BackendCall::write, BackendCall::read,
                                 BackendCall::map, BackendCall::record, BackendCall::submit}) {
    const Status status = call(f, kind);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::device_lost);
  }
  f.fault.disarm();
  EXPECT_FALSE(call(f, BackendCall::submit));
  EXPECT_EQ(f.runs.values, (std::vector<std::uint64_t>{1}));
}

TEST(Fault, OpenSubmissionsAreLimited) {
  Fixture f({.max_open = 2});
  std::array<Completion, 3> c;
  ASSERT_TRUE(f.submit(1, c[0]));
  ASSERT_TRUE(f.submit(2, c[1]));
  const Status status = f.submit(3, c[2]);
  ASSERT_FALSE(status);
  EXPECT_TRUE(status.error().is_transient());
  EXPECT_EQ(f.fault.open(), 2u);
  f.fault.wait(c[0]);
  EXPECT_TRUE(f.submit(3, c[2]));
  EXPECT_TRUE(f.fault.poll(c[1]));
  EXPECT_TRUE(f.submit(4, c[0]));
  EXPECT_EQ(f.runs.values, (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST(Fault, PassesTheRestThrough) {
  Fixture f;
  EXPECT_EQ(f.fault.info().name, "cpu");
  EXPECT_EQ(f.fault.kernels().lists().data(), f.fault.inner().kernels().lists().data());
  std::array<TimeSpan, 1> spans;
  EXPECT_EQ(f.fault.timestamps(*f.recorded, spans).error().code, ErrorCode::invalid_state);
}

}  // namespace
}  // namespace onepass
