// Every backend call fails once, and from some point on: typed errors, no leak, the next try works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "onepass/backends/cpu.h"
#include "robust/programs.h"
#include "support/heap.h"

namespace onepass::test::fault_test {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t seed = 7;
constexpr std::uint32_t slots = 4;

constexpr std::array fallible{BackendCall::allocate, BackendCall::write,  BackendCall::read,
                              BackendCall::map,      BackendCall::record, BackendCall::submit,
                              BackendCall::wait};

ErrorCode code_of(BackendCall call) {
  return call == BackendCall::allocate ? ErrorCode::out_of_memory
         : call == BackendCall::record ? ErrorCode::kernel_build
                                       : ErrorCode::submission_failed;
}
const char* word_of(BackendCall call) {
  constexpr std::array words{"allocate", "release", "write", "read", "map",
                             "record",   "submit",  "wait",  "poll", "timestamps"};
  return words[static_cast<std::size_t>(call)];
}

struct Rig {
  explicit Rig(bool late, Profile profile = Profile::none)
      : faulty(
            {.backend = {CpuOptions{.threads = 1}}, .command_buffers = slots, .profile = profile},
            {.hold = late}),
        device(faulty.device),
        block(test::Block::create(device, tiny_block(), seed).value()),
        executor(device) {}

  Status run(ProgramKind kind, Logits& logits) {
    ONEPASS_TRY(block.restart(3, 0));
    return run_program(kind, device, block, executor, logits);
  }

  FaultyDevice faulty;
  Device device;
  test::Block block;
  GraphExecutor executor;
};

// As warm_heap(), with the test framework's own storage made too.
std::int64_t warm_heap_and_traces() {
  { SCOPED_TRACE("warm"); }
  return warm_heap();
}

class FaultSweep : public ::testing::TestWithParam<std::tuple<ProgramKind, bool, bool>> {
 protected:
  // The n-th call of the kind fails, if there are so many; then a try without. False: it did not.
  bool fail_nth(Rig& rig, ProgramKind kind, const Fault& armed, const Logits& expected) {
    SCOPED_TRACE(std::string(word_of(armed.call)) + " " + std::to_string(armed.nth));
    FaultBackend& fault = *rig.faulty.fault;
    Logits logits(expected.size());
    const std::uint64_t before = fault.calls(armed.call);
    fault.arm(armed);
    {
      const Status failed = rig.run(kind, logits);
      fault.disarm();
      if (fault.calls(armed.call) - before < armed.nth) {
        EXPECT_TRUE(failed);
        return false;
      }
      EXPECT_FALSE(failed);
      if (failed) return false;
      EXPECT_EQ(failed.error().code, code_of(armed.call)) << failed.error().to_string();
      EXPECT_THAT(failed.error().message,
                  HasSubstr(std::string("injected failure of ") + word_of(armed.call)));
    }
    EXPECT_TRUE(rig.device.fence());
    EXPECT_EQ(extra_references(rig.device), 0u);
    EXPECT_TRUE(rig.device.take_errors().empty());  // whoever waited was told
    EXPECT_EQ(open_slots(rig.device, rig.block, rig.executor), slots);
    std::fill(logits.begin(), logits.end(), 0.0f);
    const Status again = rig.run(kind, logits);
    EXPECT_TRUE(again);
    EXPECT_EQ(logits, expected);
    return true;
  }
};

TEST_P(FaultSweep, EveryCallFailsOnceAndTheNextTryWorks) {
  const auto [kind, late, persistent] = GetParam();
  const Logits expected = expected_logits(kind, tiny_block(), seed);
  const std::int64_t heap_at_start = warm_heap_and_traces();
  std::shared_ptr<Ledger> ledger;
  std::uint64_t fired = 0;
  {
    Rig rig(late);
    ledger = rig.faulty.ledger;
    // Nothing fails yet: all caches are filled, so that equal means equal from here on.
    ASSERT_FALSE(fail_nth(rig, kind, {.nth = 1000}, expected));
    ASSERT_FALSE(fail_nth(rig, kind, {.nth = 1000}, expected));
    ASSERT_EQ(open_slots(rig.device, rig.block, rig.executor), slots);
    const std::uint64_t bytes = rig.device.live_bytes();
    const std::int64_t heap = heap_live();
    for (const BackendCall call : fallible) {
      for (std::uint64_t n = 1;
           fail_nth(rig, kind, {.call = call, .nth = n, .persistent = persistent}, expected); ++n) {
        ++fired;
        EXPECT_EQ(rig.device.live_bytes(), bytes) << word_of(call) << " " << n;
        EXPECT_EQ(heap_live(), heap) << word_of(call) << " " << n;
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GE(fired, kind == ProgramKind::plan ? 10u : 6u);
  EXPECT_EQ(ledger->allocations.load(), 0);
  EXPECT_EQ(ledger->bytes.load(), 0);
  ledger.reset();
  EXPECT_EQ(heap_live(), heap_at_start);
  RecordProperty("faults", static_cast<int>(fired));
}

INSTANTIATE_TEST_SUITE_P(Programs, FaultSweep,
                         ::testing::Combine(::testing::ValuesIn(all_programs), ::testing::Bool(),
                                            ::testing::Bool()),
                         [](const auto& p) {
                           return std::string(name(std::get<0>(p.param))) +
                                  (std::get<1>(p.param) ? "_late" : "_at_once") +
                                  (std::get<2>(p.param) ? "_persistent" : "_transient");
                         });

TEST(Faults, CallsWithoutErrorsCannotBeMadeToFail) {
  Rig rig(true);
  for (const BackendCall call : {BackendCall::release, BackendCall::poll}) {
    rig.faulty.fault->arm({.call = call, .persistent = true});
  }
  for (const ProgramKind kind : all_programs) {
    Logits logits(logits_of(kind, tiny_block()));
    EXPECT_TRUE(rig.run(kind, logits)) << name(kind);
    EXPECT_EQ(logits, expected_logits(kind, tiny_block(), seed)) << name(kind);
  }
}

TEST(Faults, LostTimestampsAreCountedAndChangeNothing) {
  Rig rig(true, Profile::dispatches);
  Logits logits(tiny_block().vocab);
  ASSERT_TRUE(rig.run(ProgramKind::finish_one, logits));
  const ProfileReport before = rig.device.profile();
  EXPECT_EQ(before.dropped, 0u);
  ASSERT_GT(before.samples.size(), 10u);
  rig.faulty.fault->arm({.call = BackendCall::timestamps, .persistent = true});
  ASSERT_TRUE(rig.run(ProgramKind::finish_one, logits));
  EXPECT_EQ(logits, expected_logits(ProgramKind::finish_one, tiny_block(), seed));
  const ProfileReport after = rig.device.profile();
  EXPECT_EQ(after.dropped, before.samples.size());
  EXPECT_EQ(after.samples.size(), before.samples.size());
}

// Memory and weights of a model that cannot be loaded are given back.
TEST(Faults, ModelCreationFailsAtEveryAllocationAndWrite) {
  const std::int64_t heap_at_start = warm_heap_and_traces();
  for (const BackendCall call : {BackendCall::allocate, BackendCall::write}) {
    std::uint64_t n = 1;
    for (;; ++n) {
      FaultyDevice faulty({.backend = {CpuOptions{.threads = 1}}});
      faulty.fault->arm({.call = call, .nth = n});
      const bool made = [&] {
        const Result<test::Block> block = test::Block::create(faulty.device, tiny_block(), seed);
        if (!block) {
          EXPECT_EQ(block.error().code, code_of(call));
        }
        return block.has_value();
      }();
      EXPECT_TRUE(faulty.device.fence());
      EXPECT_EQ(faulty.device.live_bytes(), 0u);
      EXPECT_EQ(faulty.ledger->allocations.load(), 0);
      if (made) break;
      EXPECT_TRUE(test::Block::create(faulty.device, tiny_block(), seed));
    }
    EXPECT_GT(n, 10u) << word_of(call);
  }
  EXPECT_EQ(heap_live(), heap_at_start);
}

// Memory for scratch is allocated by the first pass only; then it is reused.
TEST(Faults, FirstPassFailsAtEveryAllocation) {
  const std::int64_t heap_at_start = warm_heap_and_traces();
  for (const ProgramKind kind : all_programs) {
    for (const bool persistent : {false, true}) {
      std::uint64_t n = 1;
      for (;; ++n) {
        Rig rig(false);
        const std::uint64_t bytes = rig.device.live_bytes();
        Logits logits(logits_of(kind, tiny_block()));
        ASSERT_TRUE(rig.block.restart(3, 0));
        rig.faulty.fault->arm({.call = BackendCall::allocate, .nth = n, .persistent = persistent});
        const Status failed = run_program(kind, rig.device, rig.block, rig.executor, logits);
        rig.faulty.fault->disarm();
        if (failed) break;
        EXPECT_EQ(failed.error().code, ErrorCode::out_of_memory);
        EXPECT_EQ(extra_references(rig.device), 0u);
        if (n == 1) {
          EXPECT_EQ(rig.device.live_bytes(), bytes) << name(kind);
        }
        EXPECT_EQ(open_slots(rig.device, rig.block, rig.executor), slots);
        ASSERT_TRUE(rig.run(kind, logits));
        EXPECT_EQ(logits, expected_logits(kind, tiny_block(), seed)) << name(kind);
      }
      EXPECT_GT(n, 1u) << name(kind);
    }
  }
  EXPECT_EQ(heap_live(), heap_at_start);
}

// A commit that failed keeps its work: `submission_failed` says that repeating may help.
TEST(Faults, AFailedCommitCanBeRepeated) {
  for (const BackendCall call : {BackendCall::record, BackendCall::submit}) {
    for (const Retain retain : {Retain::submission, Retain::caller}) {
      SCOPED_TRACE(word_of(call));
      FaultyDevice faulty(
          {.backend = {CpuOptions{.threads = 1}}, .command_buffers = 1, .retain = retain});
      const Device& device = faulty.device;
      const Buffer in = device.allocate(64).value(), out = device.allocate(64).value();
      std::vector<float> values(16), got(16);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) + 0.5f;
      ASSERT_TRUE(device.write_as<float>(in.view(), values));
      GraphSession s = GraphExecutor(device).begin();
      ops::add(s, {.a = in.tensor(DType::f32, {16}),
                   .b = in.tensor(DType::f32, {16}),
                   .out = out.tensor(DType::f32, {16})});
      faulty.fault->arm({.call = call});
      const Result<Submission> failed = s.encoder().commit();
      ASSERT_FALSE(failed);
      EXPECT_EQ(failed.error().code, code_of(call));
      EXPECT_TRUE(s.status());
      ASSERT_TRUE(s.encoder().commit_and_wait());
      ASSERT_TRUE(device.read_as<float>(out.view(), got));
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 2 * values[i]);
      EXPECT_EQ(device.state().references(in.id()), 1u);
    }
  }
}

// Of two command buffers the first is running when the second fails: the call returns when nothing
// runs any more, and says what failed.
TEST(Faults, TheSecondCommandBufferFailsAfterTheFirst) {
  Rig rig(true);
  Logits logits(tiny_block().vocab);
  ASSERT_TRUE(rig.run(ProgramKind::finish_two, logits));
  ASSERT_TRUE(rig.block.restart(3, 0));
  rig.faulty.fault->arm({.call = BackendCall::submit, .nth = 2});
  const Status failed =
      run_program(ProgramKind::finish_two, rig.device, rig.block, rig.executor, logits);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::submission_failed);
  EXPECT_EQ(rig.faulty.fault->held(), 0u);
  EXPECT_EQ(extra_references(rig.device), 0u);
}

// Both halves fail: the message names both.
TEST(Faults, BothCommandBuffersFail) {
  Rig rig(true);
  rig.faulty.fault->arm({.call = BackendCall::wait, .nth = 1, .persistent = true});
  Logits logits(tiny_block().vocab);
  const Status failed =
      run_program(ProgramKind::finish_two, rig.device, rig.block, rig.executor, logits);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("; and submission"));
}

// Nobody waits for the failed pass: the device keeps the error, and tells the log.
TEST(Faults, AnErrorNobodyWaitedForIsKept) {
  std::vector<std::string> lines;
  FaultyDevice faulty({.backend = {CpuOptions{.threads = 1}},
                       .log =
                           [&](std::string_view category, std::string_view text) {
                             lines.push_back(std::string(category) + ": " + std::string(text));
                           }},
                      {.hold = true});
  const Buffer b = faulty.device.allocate(64).value();
  {
    GraphSession s = GraphExecutor(faulty.device).begin();
    ops::add(s, {.a = b.tensor(DType::f32, {16}),
                 .b = b.tensor(DType::f32, {16}),
                 .out = b.tensor(DType::f32, {16})});
    faulty.fault->arm({.call = BackendCall::wait});
    ASSERT_TRUE(s.commit("dropped"));
  }
  EXPECT_TRUE(faulty.device.fence());
  const std::vector<Error> errors = faulty.device.take_errors();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].code, ErrorCode::submission_failed);
  EXPECT_THAT(errors[0].message, HasSubstr("'dropped'"));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("dropped"));
  EXPECT_TRUE(faulty.device.take_errors().empty());
}

// ---- A device that is gone ----

// Calls fast enough that no timeout of a dead device can hide in them.
template <class F>
void expect_lost(const char* what, F&& call) {
  const Clock::time_point begin = Clock::now();
  const auto result = call();
  const std::chrono::duration<double> seconds = Clock::now() - begin;
  EXPECT_LT(seconds.count(), 1.0) << what;
  ASSERT_FALSE(result) << what;
  EXPECT_EQ(result.error().code, ErrorCode::device_lost)
      << what << ": " << result.error().to_string();
  EXPECT_FALSE(result.error().message.empty()) << what;
}

void expect_everything_lost(Rig& rig, const Plan& plan, const Submission& in_flight) {
  const Device& device = rig.device;
  std::vector<float> values(rig.block.shape().vocab);
  std::vector<std::byte> host(256);
  if (in_flight) expect_lost("wait", [&] { return in_flight.wait(); });
  expect_lost("run", [&] { return plan.run(); });
  expect_lost("run values", [&] { return plan.run(SingleStep(1, 0).values()); });
  expect_lost("run_async", [&] { return plan.run_async(); });
  expect_lost("allocate", [&] { return device.allocate(64); });
  expect_lost("import", [&] { return device.import_host(host); });
  expect_lost("write", [&] { return device.write_as<float>(rig.block.logits().view, values); });
  expect_lost("read", [&] { return device.read_as<float>(rig.block.logits().view, values); });
  expect_lost("map", [&] { return device.map(rig.block.logits().view); });
  expect_lost("fence", [&] { return device.fence(); });
  expect_lost("step", [&] { return StepState::create(device, 1, 1); });
  expect_lost("pool", [&] { return BufferPool(device).take(64); });
  for (const bool recorded : {false, true}) {
    GraphSession s = recorded ? rig.executor.begin_recorded() : rig.executor.begin();
    rig.block.forward(s);
    expect_lost(recorded ? "finish recorded" : "finish direct", [&] { return s.finish(); });
  }
  GraphSession s = rig.executor.begin_recorded();
  rig.block.forward(s);
  expect_lost("compile", [&] { return s.compile({.step = &rig.block.step()}); });
  CommandEncoder encoder(device);
  expect_lost("commit", [&] { return encoder.commit(); });
}

TEST(DeviceLost, EveryCallSaysSoAtOnceAndTeardownIsClean) {
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    const std::int64_t heap_at_start = warm_heap_and_traces();
    std::shared_ptr<Ledger> ledger;
    {
      Rig rig(late);
      ledger = rig.faulty.ledger;
      GraphSession s = rig.executor.begin_recorded();
      rig.block.forward(s);
      const Plan plan = s.compile({.step = &rig.block.step()}).value();
      ASSERT_TRUE(plan.run(SingleStep(3, 0).values()));
      Submission in_flight = plan.run_async().value();
      GraphSession open = rig.executor.begin();
      rig.block.forward(open);
      rig.faulty.fault->lose_device();
      expect_everything_lost(rig, plan, late ? in_flight : Submission());
      expect_lost("finish of a session begun before", [&] { return open.finish(); });
    }
    EXPECT_EQ(ledger->allocations.load(), 0);
    ledger.reset();
    EXPECT_EQ(heap_live(), heap_at_start);
  }
}

// Whichever call notices first, all others know from then on.
TEST(DeviceLost, OneCallThatNoticesIsEnough) {
  const std::int64_t heap_at_start = warm_heap_and_traces();
  for (const ProgramKind kind : all_programs) {
    for (const BackendCall call : fallible) {
      for (std::uint64_t n = 1;; ++n) {
        ASSERT_LT(n, 1000u);
        SCOPED_TRACE(std::string(name(kind)) + " " + word_of(call) + " " + std::to_string(n));
        Rig rig(true);
        GraphSession s = rig.executor.begin_recorded();
        rig.block.forward(s);
        const Plan plan = s.compile({.step = &rig.block.step()}).value();
        Logits logits(logits_of(kind, tiny_block()));
        ASSERT_TRUE(rig.run(kind, logits));
        rig.faulty.fault->arm({.call = call, .nth = n, .code = ErrorCode::device_lost});
        const std::uint64_t before = rig.faulty.fault->calls(call);
        const Status failed = rig.run(kind, logits);
        if (rig.faulty.fault->calls(call) - before < n) {
          EXPECT_TRUE(failed);
          break;
        }
        ASSERT_FALSE(failed);
        EXPECT_EQ(failed.error().code, ErrorCode::device_lost) << failed.error().to_string();
        expect_everything_lost(rig, plan, {});
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_EQ(heap_live(), heap_at_start);
}

}  // namespace
}  // namespace onepass::test::fault_test
