#include "support/backends/shuffle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "support/recordings.h"

namespace onepass {
namespace {

using testing::cell_bytes;
using testing::cell_words;
using testing::make_recording;
using testing::OrderedRecording;
using testing::Program;
using testing::random_program;
using testing::run_reference;

std::vector<std::uint32_t> run(ShuffleBackend& backend, Recorded& recorded) {
  Completion completion;
  EXPECT_TRUE(backend.submit(recorded, {}, completion));
  EXPECT_TRUE(backend.poll(completion));
  const auto order = ShuffleBackend::last_order(recorded);
  return {order.begin(), order.end()};
}

std::vector<std::uint64_t> words_of(const Allocation& memory) {
  std::vector<std::uint64_t> words(memory.bytes / sizeof(std::uint64_t));
  std::memcpy(words.data(), memory.host, memory.bytes);
  return words;
}

// Every launch once, and none before what it has to wait for.
void expect_legal(const OrderedRecording& r, const std::vector<std::uint32_t>& order,
                  bool by_levels) {
  const std::size_t n = r.launches.size();
  ASSERT_EQ(order.size(), n);
  std::vector<std::size_t> at(n, n);
  for (std::size_t k = 0; k < n; ++k) at[order[k]] = k;
  ASSERT_EQ(std::count(at.begin(), at.end(), n), 0);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t j = 0; j < i; ++j) {
      const auto begin = r.preds.begin() + (by_levels ? 0 : r.pred_offsets[i]);
      const auto end = r.preds.begin() + (by_levels ? 0 : r.pred_offsets[i + 1]);
      const bool ordered =
          by_levels ? r.launches[j].level < r.launches[i].level : std::find(begin, end, j) != end;
      if (!ordered) continue;
      ASSERT_LT(at[j], at[i]) << j << " before " << i;
    }
  }
}

TEST(Shuffle, EveryOrderGivesTheReferenceBytes) {
  for (const ShuffleOrder order :
       {ShuffleOrder::forward, ShuffleOrder::reverse, ShuffleOrder::random}) {
    for (const OrderKind model : {OrderKind::edges, OrderKind::levels, OrderKind::in_order}) {
      for (const bool use_levels : {false, true}) {
        ShuffleBackend backend({.order = order, .seed = 5, .use_levels = use_levels});
        const Program program = random_program(17, 200, 20);
        const Allocation memory =
            backend.allocate(20 * cell_bytes, MemoryKind::device, true).value();
        const OrderedRecording recording = make_recording(program, memory, model);
        auto recorded = testing::record(backend, recording);
        ASSERT_TRUE(recorded);
        std::vector<std::uint64_t> expected(20 * cell_words, 0);
        for (int replay = 0; replay < 4; ++replay) {
          const auto got = run(backend, **recorded);
          expect_legal(recording, got, use_levels || model != OrderKind::edges);
          run_reference(program, expected);
          ASSERT_EQ(words_of(memory), expected);
        }
        backend.release(memory);
      }
    }
  }
}

// 0 -> 2, 1 -> 3, level order.
OrderedRecording two_chains(const KernelRow& row) {
  OrderedRecording r;
  r.launches.resize(4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    r.launches[i].kernel = &row;
    r.launches[i].level = i / 2;
  }
  r.level_offsets = {0, 2, 4};
  r.pred_offsets = {0, 0, 0, 1, 2};
  r.preds = {0, 1};
  return r;
}
const KernelRow nothing{.name = "nothing", .code = [](const KernelArgs&) noexcept {}};

using Order = std::vector<std::uint32_t>;

TEST(Shuffle, ReverseTakesTheLastThatMayRun) {
  ShuffleBackend edges({.order = ShuffleOrder::reverse});
  EXPECT_EQ(run(edges, **testing::record(edges, two_chains(nothing))), (Order{1, 3, 0, 2}));
  ShuffleBackend levels({.order = ShuffleOrder::reverse, .use_levels = true});
  EXPECT_EQ(run(levels, **testing::record(levels, two_chains(nothing))), (Order{1, 0, 3, 2}));
  ShuffleBackend forward({.order = ShuffleOrder::forward});
  EXPECT_EQ(run(forward, **testing::record(forward, two_chains(nothing))), (Order{0, 1, 2, 3}));
}

TEST(Shuffle, RandomReachesEveryLegalOrder) {
  for (const bool use_levels : {false, true}) {
    ShuffleBackend backend({.order = ShuffleOrder::random, .use_levels = use_levels});
    auto recorded = testing::record(backend, two_chains(nothing));
    ASSERT_TRUE(recorded);
    std::set<Order> seen;
    for (int i = 0; i < 400; ++i) seen.insert(run(backend, **recorded));
    // Interleavings of two chains of two: 6; two permutations of two within levels: 4.
    EXPECT_EQ(seen.size(), use_levels ? 4u : 6u);
  }
}

TEST(Shuffle, SeedsRepeat) {
  const auto orders = [](std::uint64_t seed) {
    ShuffleBackend backend({.order = ShuffleOrder::random, .seed = seed});
    OrderedRecording r = two_chains(nothing);
    auto recorded = testing::record(backend, r);
    std::vector<Order> list;
    for (int i = 0; i < 20; ++i) list.push_back(run(backend, **recorded));
    backend.reseed(seed);
    EXPECT_EQ(run(backend, **recorded), list[0]);
    return list;
  };
  EXPECT_EQ(orders(1), orders(1));
  EXPECT_NE(orders(1), orders(2));
}

TEST(Shuffle, SerialRecordingsStayInOrder) {
  for (const ShuffleOrder order : {ShuffleOrder::reverse, ShuffleOrder::random}) {
    ShuffleBackend backend({.order = order});
    OrderedRecording r = two_chains(nothing);
    r.serial = true;
    auto recorded = testing::record(backend, r);
    ASSERT_TRUE(recorded);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(run(backend, **recorded), (Order{0, 1, 2, 3}));
  }
}

TEST(Shuffle, TilesAreShuffledToo) {
  struct Seen {
    Order tiles;
  } seen;
  seen.tiles.reserve(8);
  const KernelRow row{
      .name = "tiles",
      .code =
          [](const KernelArgs& a) noexcept { static_cast<Seen*>(a.user)->tiles.push_back(a.tile); },
      .user = &seen};
  const auto tiles = [&](ShuffleOrder order, std::uint64_t seed) {
    ShuffleBackend backend({.order = order, .seed = seed});
    auto recorded = testing::record(backend, testing::one_launch(row, 8));
    seen.tiles.clear();
    run(backend, **recorded);
    return seen.tiles;
  };
  Order ascending(8);
  std::iota(ascending.begin(), ascending.end(), 0u);
  EXPECT_EQ(tiles(ShuffleOrder::forward, 0), ascending);
  EXPECT_EQ(tiles(ShuffleOrder::reverse, 0), Order(ascending.rbegin(), ascending.rend()));
  Order random = tiles(ShuffleOrder::random, 3);
  EXPECT_NE(random, ascending);
  std::sort(random.begin(), random.end());
  EXPECT_EQ(random, ascending);
}

// What the backend is for: a recording that lacks an edge must not pass.
TEST(Shuffle, FindsAMissingEdge) {
  ShuffleBackend backend({.order = ShuffleOrder::reverse});
  const Program program = testing::chain_program(6, 2);
  const Allocation memory = backend.allocate(2 * cell_bytes, MemoryKind::device, true).value();
  OrderedRecording r = make_recording(program, memory, OrderKind::edges);
  // Launch 3 loses its edges; those of later launches stay.
  const std::uint32_t begin = r.pred_offsets[3], n = r.pred_offsets[4] - begin;
  r.preds.erase(r.preds.begin() + begin, r.preds.begin() + begin + n);
  for (std::size_t i = 4; i < r.pred_offsets.size(); ++i) r.pred_offsets[i] -= n;
  auto recorded = testing::record(backend, r);
  ASSERT_TRUE(recorded);
  run(backend, **recorded);
  std::vector<std::uint64_t> expected(2 * cell_words, 0);
  run_reference(program, expected);
  EXPECT_NE(words_of(memory), expected);
  backend.release(memory);
}

TEST(Shuffle, TimesAndErrors) {
  ShuffleBackend backend;
  OrderedRecording r = two_chains(nothing);
  r.timed = true;
  auto recorded = testing::record(backend, r);
  ASSERT_TRUE(recorded);
  run(backend, **recorded);
  std::array<TimeSpan, 4> spans;
  ASSERT_TRUE(backend.timestamps(**recorded, spans));
  EXPECT_LE(spans[0].end_ns, spans[2].start_ns);
  EXPECT_LE(spans[1].end_ns, spans[3].start_ns);
  EXPECT_GT(spans[3].start_ns, 0u);
  r.timed = false;
  EXPECT_EQ(backend.timestamps(**testing::record(backend, r), spans).error().code,
            ErrorCode::invalid_state);
  const KernelRow no_code{.name = "no_code"};
  EXPECT_EQ(testing::record(backend, testing::one_launch(no_code)).error().code,
            ErrorCode::kernel_build);
}

}  // namespace
}  // namespace onepass
