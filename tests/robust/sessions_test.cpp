// Ten thousand sessions that are dropped, fail or finish: no command buffer is lost, nothing
// blocks.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "core/os.h"
#include "onepass/backends/cpu.h"
#include "robust/programs.h"

namespace onepass::test::sessions_test {
namespace {

// Ends the program when the test did not come back in time.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit)
      : thread_([this, limit] {
          std::unique_lock lock(mutex_);
          if (stopped_.wait_for(lock, limit, [this] { return stop_; })) return;
          std::fputs("the watchdog found the test blocked\n", stderr);
          std::_Exit(3);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    stopped_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

struct Conditions {
  bool late = false;
  std::uint32_t max_open = 0;
  std::uint32_t threads = 1;
  bool faults = false;
};

class Sessions : public ::testing::TestWithParam<Conditions> {};

TEST_P(Sessions, TenThousandMixedSessionsLoseNoCommandBuffer) {
  const Conditions given = GetParam();
  const Watchdog watchdog(std::chrono::seconds(60 * (os::sanitized ? 4 : 1)));
  FaultyDevice faulty({.backend = {CpuOptions{.threads = given.threads}}, .command_buffers = 4},
                      {.hold = given.late, .max_open = given.max_open});
  const Device& device = faulty.device;
  const GraphExecutor executor(device);
  const test::Block block = test::Block::create(device, tiny_block(), 1).value();
  const Buffer x = device.allocate(4096).value();
  const Buffer y = device.allocate(4096).value();
  std::mt19937_64 random(0xfeed + given.max_open);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::vector<GraphSession> open;    // begun and left alone
  std::vector<Submission> unwaited;  // submitted and left alone
  std::uint64_t finished = 0, failed = 0, dropped = 0, refused = 0;
  double sum = 0;  // what y[0] must be: every pass that ran added one

  const std::vector<float> ones(16, 1.0f), zeros(16, 0.0f);
  ASSERT_TRUE(device.write_as<float>(x.view(0, 64), ones));
  ASSERT_TRUE(device.write_as<float>(y.view(0, 64), zeros));
  const Tensor one = x.tensor(DType::f32, {16});
  const Tensor total = y.tensor(DType::f32, {16});
  for (int i = 0; i < 10000; ++i) {
    GraphSession s = below(2) == 0 ? executor.begin() : executor.begin_recorded();
    const bool recorded = s.is_recording();
    const std::uint64_t kind = below(8);
    const bool bad = kind == 0;
    const std::uint64_t n_ops = 1 + below(3);
    for (std::uint64_t k = 0; k < n_ops; ++k) {
      ops::add(s, {.a = total, .b = one, .out = total});
    }
    if (bad) ops::add(s, {.a = total, .b = {}, .out = total});
    if (given.faults && below(16) == 0) {
      constexpr std::array calls{BackendCall::record, BackendCall::submit, BackendCall::allocate};
      faulty.fault->arm({.call = calls[below(calls.size())]});
    }
    if (kind <= 1 || kind == 7) {
      if (kind == 7 && open.size() < 3) {
        open.push_back(std::move(s));
        if (below(2) == 0) open.erase(open.begin() + static_cast<int>(below(open.size())));
        continue;
      }
      if (bad) {
        const auto result = s.finish();
        EXPECT_FALSE(result);
        ++failed;
      }
      ++dropped;
      continue;
    }
    if (kind == 2) {  // a session that is moved over another ends it
      GraphSession other = executor.begin();
      ops::add(other, {.a = total, .b = one, .out = total});
      other = std::move(s);
      s = std::move(other);
    }
    const bool wait = below(3) != 0;
    const Result<FinishReport> report =
        s.finish({.command_buffers = recorded && below(2) == 0 ? 2u : 1u,
                  .first_min = 1,
                  .first_percent = 0,
                  .wait = wait});
    faulty.fault->disarm();
    if (!report) {
      // All command buffers may be held by sessions that are open here, and only by them.
      const ErrorCode code = report.error().code;
      if (code == ErrorCode::limit) {
        EXPECT_GE(open.size(), 1u);
        open.clear();
        ++refused;
      } else {
        EXPECT_TRUE(given.faults) << report.error().to_string();
        EXPECT_TRUE(code == ErrorCode::submission_failed || code == ErrorCode::kernel_build ||
                    code == ErrorCode::out_of_memory)
            << report.error().to_string();
        ++failed;
      }
      ASSERT_TRUE(device.fence());
      std::array<float, 16> now{};
      ASSERT_TRUE(device.read_as<float>(total.view, now));  // half a pass may have run
      ASSERT_LE(sum, static_cast<double>(now[0]));
      ASSERT_LE(static_cast<double>(now[0]), sum + static_cast<double>(n_ops));
      sum = static_cast<double>(now[0]);
      continue;
    }
    ++finished;
    sum += static_cast<double>(n_ops);
    if (!wait && below(4) == 0) unwaited.push_back(report->submission);
    if (unwaited.size() > 8) unwaited.erase(unwaited.begin());
  }
  open.clear();
  ASSERT_TRUE(device.fence());
  std::array<float, 16> result{};
  ASSERT_TRUE(device.read_as<float>(total.view, result));
  EXPECT_EQ(static_cast<double>(result[0]), sum);
  EXPECT_EQ(open_slots(device, block, executor), 4u);
  EXPECT_GT(finished, 4000u);
  EXPECT_GT(failed, 1000u);
  EXPECT_GT(dropped, 1000u);
  EXPECT_EQ(device.state().references(x.id()), 1u);
  unwaited.clear();
  EXPECT_EQ(faulty.fault->held(), 0u);
  EXPECT_TRUE(device.take_errors().empty());
}

INSTANTIATE_TEST_SUITE_P(Setups, Sessions,
                         ::testing::Values(Conditions{}, Conditions{.threads = 2},
                                           Conditions{.late = true},
                                           Conditions{.max_open = 4, .threads = 2},
                                           Conditions{.late = true, .max_open = 4},
                                           Conditions{.late = true, .max_open = 4, .faults = true}),
                         [](const auto& p) {
                           const Conditions& s = p.param;
                           return std::string(s.late ? "late" : "at_once") +
                                  (s.max_open ? "_max_open" : "") +
                                  (s.threads > 1 ? "_threads" : "") + (s.faults ? "_faults" : "");
                         });

// All command buffers are open: a typed refusal, not a wait that never ends.
TEST(SessionLimit, TheFifthOfFourIsRefused) {
  const Watchdog watchdog(std::chrono::seconds(60));
  FaultyDevice faulty({.backend = {CpuOptions{.threads = 1}}, .command_buffers = 4});
  const GraphExecutor executor(faulty.device);
  const test::Block block = test::Block::create(faulty.device, tiny_block(), 1).value();
  std::vector<GraphSession> open;
  for (int i = 0; i < 5; ++i) {
    open.push_back(executor.begin());
    block.forward(open.back());
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(open[i].status());
  const Status refused = open[4].status();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::limit);
  EXPECT_NE(refused.error().message.find("4 command buffers"), std::string::npos);
  // Recorded sessions hold none until they are finished.
  GraphSession recorded = executor.begin_recorded();
  block.forward(recorded);
  EXPECT_TRUE(recorded.status());
  open.pop_back();
  open.pop_back();
  EXPECT_TRUE(recorded.finish());
}

}  // namespace
}  // namespace onepass::test::sessions_test
