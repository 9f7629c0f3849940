#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <utility>

#include "backends/cuda/cuda.h"
#include "backends/fake_cuda_driver.h"
#include "graph/order.h"
#include "onepass/backends/cuda.h"
#include "support/recordings.h"

namespace onepass {
namespace {

using testing::FakeDriver;
using testing::OrderedRecording;
using Edges = std::set<std::pair<std::size_t, std::size_t>>;

TEST(CudaEdges, TheDriverIsToldAndTheOptionTurnsThemOff) {
  const cuda::Driver driver = FakeDriver::table();
  FakeDriver& fake = FakeDriver::get();
  fake.reset();
  const char image[] = "image";
  const std::array rows{
      KernelRow{.name = "waits", .code = CudaSymbol{"waits"}, .start = {.waits_first = true}}};
  const std::array images{cuda::KernelImage{rows, image}};
  for (const bool plain_edges : {false, true}) {
    const auto backend = cuda::open_device(driver, images, 0,
                                           {.backend = {CudaOptions{.plain_edges = plain_edges}}});
    ASSERT_TRUE(backend);
    OrderedRecording r =
        testing::make_recording(testing::chain_program(3, 1), Allocation{0x10000, nullptr, 1 << 20},
                                OrderKind::edges, rows[0]);
    r.set_preds({{}, {0}, {1}});
    const Order order =
        graph::choose_order(r, {r.pred_offsets, r.preds}, (*backend)->info(), false);
    const auto recorded = (*backend)->record(r, order);
    ASSERT_TRUE(recorded) << recorded.error().to_string();
    const testing::FakeGraph& graph = fake.instantiated.back();
    EXPECT_EQ(graph.edges, (Edges{{0, 1}, {1, 2}}));
    EXPECT_EQ(graph.programmatic, plain_edges ? Edges{} : (Edges{{0, 1}, {1, 2}}));
  }
  EXPECT_EQ(fake.live(), 0u);
  fake.reset();
}

// Programmatic edges, added ones and those that were dropped: the driver gets what was chosen.
TEST(CudaEdges, AreThoseOfTheOrder) {
  const cuda::Driver driver = FakeDriver::table();
  FakeDriver& fake = FakeDriver::get();
  fake.reset();
  const char image[] = "image";
  const std::array rows{
      KernelRow{.name = "waits", .code = CudaSymbol{"waits"}, .start = {.waits_first = true}}};
  const std::array images{cuda::KernelImage{rows, image}};
  const auto backend = cuda::open_device(driver, images, 0, {});
  ASSERT_TRUE(backend);
  std::size_t n_programmatic = 0, n_added = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    OrderedRecording r =
        testing::make_recording(testing::random_program(seed, 40, 24, 0.05),
                                Allocation{0x10000, nullptr, 1 << 20}, OrderKind::edges, rows[0]);
    for (RecordedLaunch& l : r.launches) {
      l.launch.grid = {static_cast<std::uint32_t>(1 + testing::mix(seed + l.index) % 200), 1, 1};
    }
    const Order order =
        graph::choose_order(r, {r.pred_offsets, r.preds}, (*backend)->info(), false);
    Edges all, programmatic;
    for (std::uint32_t v = 0; v < r.launches.size(); ++v) {
      for (const Edge& e : order.edges_into(v)) {
        all.emplace(e.from, v);
        if (e.programmatic) programmatic.emplace(e.from, v);
        n_added += e.added ? 1 : 0;
      }
    }
    n_programmatic += programmatic.size();
    const auto recorded = (*backend)->record(r, order);
    ASSERT_TRUE(recorded) << recorded.error().to_string();
    EXPECT_EQ(fake.instantiated.back().edges, all) << seed;
    EXPECT_EQ(fake.instantiated.back().programmatic, programmatic) << seed;
  }
  EXPECT_GT(n_programmatic, 500u);
  EXPECT_GT(n_added, 100u);
}

}  // namespace
}  // namespace onepass
