// Passes that run once: which kernels the streams and events of the CUDA backend order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "backends/cuda/cuda.h"
#include "backends/fake_cuda_driver.h"
#include "support/recordings.h"

namespace onepass::cuda_lanes_test {
namespace {

using testing::FakeDriver;
using testing::FakeStreamOp;
using testing::OrderedRecording;
using Ops = std::vector<FakeStreamOp>;

constexpr std::size_t n_lanes = 4;

// Kernels in the order of their launch, and which are complete when another starts.
struct StreamOrder {
  std::vector<std::set<std::size_t>> before;  // per kernel
  std::set<std::size_t> at_last_record;       // complete when the event recorded last is there

  // The n-th op is left out.
  explicit StreamOrder(const Ops& ops, std::size_t left_out = ~std::size_t{0}) {
    std::map<CUstream, std::set<std::size_t>> streams;
    std::map<CUevent, std::set<std::size_t>> events;
    for (std::size_t n = 0; n < ops.size(); ++n) {
      if (n == left_out) continue;
      std::set<std::size_t>& done = streams[ops[n].stream];
      switch (ops[n].kind) {
        case FakeStreamOp::Kind::kernel:
          before.push_back(done);
          done.insert(before.size() - 1);
          break;
        case FakeStreamOp::Kind::record:
          at_last_record = events[ops[n].event] = done;
          break;
        case FakeStreamOp::Kind::wait:
          done.insert(events[ops[n].event].begin(), events[ops[n].event].end());
          break;
      }
    }
  }
  bool orders(std::size_t a, std::size_t b) const { return before[b].count(a) != 0; }
};

class CudaLanes : public ::testing::Test {
 protected:
  void SetUp() override {
    fake().reset();
    auto opened = cuda::open_device(driver(), images_, 0, {});
    ASSERT_TRUE(opened) << opened.error().to_string();
    backend_ = std::move(*opened);
  }
  void TearDown() override {
    backend_.reset();
    EXPECT_EQ(fake().live(), 0u);
    fake().reset();
  }
  static FakeDriver& fake() { return FakeDriver::get(); }
  static const cuda::Driver& driver() {
    static const cuda::Driver table = FakeDriver::table();
    return table;
  }

  OrderedRecording recording(const testing::Program& program, OrderKind kind) const {
    OrderedRecording r =
        testing::make_recording(program, Allocation{0x10000, nullptr, 1 << 20}, kind, rows_[0]);
    r.replayed = false;
    return r;
  }
  std::unique_ptr<Recorded> record(const OrderedRecording& r) {
    auto recorded = testing::record(*backend_, r);
    EXPECT_TRUE(recorded) << recorded.error().to_string();
    return std::move(*recorded);
  }
  // Submits each without waiting for the one before; what the streams were given in between.
  Ops submit(const std::vector<Recorded*>& passes) {
    fake().stream_ops.clear();
    fake().hold();
    std::vector<Completion> completions(passes.size());
    for (std::size_t i = 0; i < passes.size(); ++i) {
      EXPECT_TRUE(backend_->submit(*passes[i], {}, completions[i]));
    }
    Ops ops = fake().stream_ops;
    fake().complete_all();
    for (Completion& c : completions) backend_->wait(c);
    return ops;
  }

  const std::array<KernelRow, 1> rows_{KernelRow{.name = "hash", .code = CudaSymbol{"hash"}}};
  const char image_[6] = "image";
  const std::array<cuda::KernelImage, 1> images_{cuda::KernelImage{rows_, image_}};
  std::unique_ptr<Backend> backend_;
};

// Level of each kernel over all passes; levels of a later pass are higher.
std::vector<std::uint32_t> levels_of(const std::vector<OrderedRecording>& passes) {
  std::vector<std::uint32_t> levels;
  std::uint32_t first = 0;
  for (const OrderedRecording& r : passes) {
    for (const RecordedLaunch& l : r.launches) {
      if (!l.is_fence()) levels.push_back(first + l.level);
    }
    first += r.n_levels();
  }
  return levels;
}

// What the order lacks of "every level waits for the one before, and the end for all".
std::size_t missing(const StreamOrder& order, const std::vector<std::uint32_t>& levels) {
  std::size_t n = levels.size() - order.at_last_record.size();
  for (std::size_t a = 0; a < levels.size(); ++a) {
    for (std::size_t b = a + 1; b < levels.size(); ++b) {
      n += levels[a] < levels[b] && !order.orders(a, b) ? 1 : 0;
    }
  }
  return n;
}

TEST_F(CudaLanes, LevelsAreOrderedAndLaunchesOfOneAreNot) {
  std::size_t apart = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    // One kernel comes first, so that every wait has something to wait for.
    const std::vector<OrderedRecording> passes{
        recording(testing::chain_program(1, 1), OrderKind::levels),
        recording(testing::random_program(seed, 40, 48, 0.05), OrderKind::levels),
        recording(testing::random_program(seed + 100, 30, 24, 0.1), OrderKind::levels)};
    std::vector<std::unique_ptr<Recorded>> recorded;
    std::vector<Recorded*> list;
    for (const OrderedRecording& r : passes) {
      recorded.push_back(record(r));
      list.push_back(recorded.back().get());
    }
    const Ops ops = submit(list);
    const std::vector<std::uint32_t> levels = levels_of(passes);
    const StreamOrder order(ops);
    ASSERT_EQ(order.before.size(), levels.size());
    EXPECT_EQ(missing(order, levels), 0u) << seed;

    std::map<std::uint32_t, std::vector<std::size_t>> by_level;
    for (std::size_t k = 0; k < levels.size(); ++k) by_level[levels[k]].push_back(k);
    for (const auto& [level, kernels] : by_level) {
      for (std::size_t b = 0; b < kernels.size(); ++b) {
        for (std::size_t a = 0; a < b; ++a) {
          const bool same_lane = a % n_lanes == b % n_lanes;
          EXPECT_EQ(order.orders(kernels[a], kernels[b]), same_lane) << seed << ' ' << level;
          apart += same_lane ? 0 : 1;
        }
      }
    }

    // Every wait is needed and would be missed.
    for (std::size_t n = 0; n < ops.size(); ++n) {
      if (ops[n].kind != FakeStreamOp::Kind::wait) continue;
      EXPECT_GT(missing(StreamOrder(ops, n), levels), 0u) << seed << ", op " << n;
    }
  }
  EXPECT_GT(apart, 500u);
}

TEST_F(CudaLanes, WhereOneFollowsTheOtherNothingIsWaitedFor) {
  const auto program = testing::random_program(3, 24, 32, 0.0);
  for (const OrderedRecording& r :
       {recording(testing::chain_program(9, 1), OrderKind::levels),
        recording(program, OrderKind::in_order), recording(program, OrderKind::edges)}) {
    const auto pass = record(r);
    const Ops ops = submit({pass.get()});
    ASSERT_EQ(ops.size(), r.launches.size() + 2) << "kernels between the events of the submission";
    for (const FakeStreamOp& op : ops) EXPECT_EQ(op.stream, ops[0].stream);
  }
}

TEST_F(CudaLanes, StreamsAndEventsAreMadeOnce) {
  const OrderedRecording r = recording(testing::random_program(5, 40, 48, 0.0), OrderKind::levels);
  const std::size_t events = fake().events.size();
  const int streams = fake().streams;
  for (int i = 0; i < 3; ++i) {
    const auto pass = record(r);
    submit({pass.get(), pass.get()});
  }
  EXPECT_EQ(fake().events.size(), events);
  EXPECT_EQ(fake().streams, streams);
  EXPECT_EQ(streams, static_cast<int>(n_lanes));
}

// Lanes may have work that nothing waits for: it has ended before the error is there.
TEST_F(CudaLanes, AfterALaunchThatFailedNoLaneRuns) {
  const OrderedRecording r = recording(testing::random_program(5, 12, 48, 0.0), OrderKind::levels);
  const auto pass = record(r);
  for (const std::uint64_t calls : {2u, 4u, 6u, 9u}) {
    const std::size_t syncs = fake().syncs;
    fake().fail_next(CUDA_ERROR_INVALID_VALUE, calls);
    Completion completion;
    const Status failed = backend_->submit(*pass, {}, completion);
    ASSERT_FALSE(failed) << calls;
    EXPECT_EQ(failed.error().code, ErrorCode::submission_failed);
    EXPECT_THAT(failed.error().message, ::testing::HasSubstr(fake().failed_call()));
    EXPECT_EQ(fake().syncs - syncs, n_lanes);
  }
}

}  // namespace
}  // namespace onepass::cuda_lanes_test
