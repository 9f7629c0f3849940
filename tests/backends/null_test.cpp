#include "backends/null/null.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/recordings.h"

namespace onepass {
namespace {

using testing::cell_bytes;
using testing::make_recording;
using testing::OrderedRecording;

TEST(Null, CountsWhatItWasGiven) {
  NullBackend null;
  const Allocation memory = null.allocate(10 * cell_bytes, MemoryKind::device, true).value();
  const testing::Program program = testing::random_program(1, 50, 10, 0.2);
  OrderedRecording recording = make_recording(program, memory, OrderKind::edges);
  recording.timed = true;
  NullBackend::Counts expected;
  for (const testing::Step& step : program) {
    if (step.fence) {
      ++expected.fences;
      continue;
    }
    ++expected.launches;
    expected.tiles += step.tiles;
    expected.views += static_cast<std::uint32_t>(step.in.size()) + 1;
  }
  ASSERT_GT(expected.fences, 0u);

  auto recorded = testing::record(null, recording);
  ASSERT_TRUE(recorded);
  Completion completion;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(null.submit(**recorded, {}, completion));
  ASSERT_EQ(null.recordings().size(), 1u);
  const NullBackend::Counts got = null.recordings()[0];
  EXPECT_EQ(got.launches, expected.launches);
  EXPECT_EQ(got.fences, expected.fences);
  EXPECT_EQ(got.tiles, expected.tiles);
  EXPECT_EQ(got.views, expected.views);
  EXPECT_EQ(got.edges, recording.preds.size());
  EXPECT_EQ(got.levels, recording.launches.back().level + 1);
  EXPECT_EQ(got.order, OrderKind::edges);
  EXPECT_EQ(got.submissions, 3u);
  EXPECT_TRUE(got.timed);

  EXPECT_TRUE(testing::record(null, make_recording(program, memory, OrderKind::in_order)));
  EXPECT_EQ(null.recordings()[1].order, OrderKind::in_order);
  EXPECT_EQ(null.recordings()[1].edges, 0u);
  null.release(memory);
}

TEST(Null, RunsNothingAndCompletesAtOnce) {
  std::atomic<int> ran{0};
  const KernelRow row{
      .name = "count",
      .code = [](const KernelArgs& a) noexcept { ++*static_cast<std::atomic<int>*>(a.user); },
      .user = &ran};
  NullBackend null;
  auto recorded = testing::record(null, testing::one_launch(row));
  ASSERT_TRUE(recorded);
  Completion completion;
  ASSERT_TRUE(null.submit(**recorded, {}, completion));
  EXPECT_TRUE(completion.done);
  EXPECT_TRUE(null.poll(completion));
  null.wait(completion);
  EXPECT_EQ(ran, 0);
  EXPECT_LE(completion.span.start_ns, completion.span.end_ns);
}

TEST(Null, MemoryAndStepValuesAreReal) {
  NullBackend null;
  const Allocation memory = null.allocate(64, MemoryKind::upload, true).value();
  OrderedRecording recording;
  recording.step = BoundView{memory, 8, 8};
  auto recorded = testing::record(null, recording);
  ASSERT_TRUE(recorded);
  const std::uint64_t value = 0x1122334455667788u;
  Completion completion;
  ASSERT_TRUE(null.submit(**recorded, std::as_bytes(std::span(&value, 1)), completion));
  std::array<std::uint64_t, 3> words{};
  ASSERT_TRUE(null.read(memory, 0, std::as_writable_bytes(std::span(words))));
  EXPECT_EQ(words, (std::array<std::uint64_t, 3>{0, value, 0}));
  null.release(memory);
}

TEST(Null, LogsCallsInOrder) {
  NullBackend null;
  const Allocation memory = null.allocate(100, MemoryKind::device, false).value();
  const std::array<std::byte, 7> bytes{};
  ASSERT_TRUE(null.write(memory, 0, bytes));
  auto recorded = testing::record(null, OrderedRecording{});
  ASSERT_TRUE(recorded);
  Completion completion;
  ASSERT_TRUE(null.submit(**recorded, {}, completion));
  null.wait(completion);
  null.release(memory);
  using Call = NullBackend::Call;
  EXPECT_EQ(null.calls(), (std::vector<Call>{{BackendCall::allocate, 100},
                                             {BackendCall::write, 7},
                                             {BackendCall::record, 0},
                                             {BackendCall::submit, 0},
                                             {BackendCall::wait, 0},
                                             {BackendCall::release, 100}}));
  null.clear_log();
  EXPECT_TRUE(null.calls().empty());
  EXPECT_EQ(null.count(BackendCall::submit), 0u);
}

TEST(Null, TheLogIsBoundedAndTheCountsAreNot) {
  NullBackend null;
  auto recorded = testing::record(null, OrderedRecording{});
  ASSERT_TRUE(recorded);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Completion completion;
      for (int i = 0; i < 2000; ++i) {
        if (!null.submit(**recorded, {}, completion)) return;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(null.count(BackendCall::submit), 8000u);
  EXPECT_EQ(null.recordings()[0].submissions, 8000u);
  EXPECT_EQ(null.calls().size(), NullBackend::log_size);
}

TEST(Null, TimestampsNeedATimedRecording) {
  NullBackend null;
  auto plain = testing::record(null, OrderedRecording{});
  OrderedRecording timed_recording;
  timed_recording.timed = true;
  auto timed = testing::record(null, timed_recording);
  ASSERT_TRUE(plain && timed);
  std::array<TimeSpan, 2> spans;
  const Status status = null.timestamps(**plain, spans);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::invalid_state);
  EXPECT_TRUE(null.timestamps(**timed, spans));
}

}  // namespace
}  // namespace onepass
