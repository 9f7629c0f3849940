#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "backends/cuda/cuda.h"
#include "backends/cuda/recording.h"
#include "backends/fake_cuda_driver.h"
#include "backends/recordings.h"

namespace onepass {
namespace {

using cuda::GraphShape;
using cuda::ShapeOptions;
using testing::FakeDriver;
using Edges = std::set<std::pair<std::size_t, std::size_t>>;

const KernelRow waiting{.name = "waits", .waits_first = true, .symbol = "waits"};
const KernelRow plain{.name = "plain", .symbol = "plain"};
// The first view of a step with inputs is one of its inputs.
const KernelRow early{.name = "early", .waits_first = true, .symbol = "early", .reads_early = 1};
const Allocation memory{0x10000, nullptr, 1 << 20};

Recording chain_of(std::initializer_list<const KernelRow*> rows) {
  Recording r =
      testing::make_recording(testing::chain_program(static_cast<std::uint32_t>(rows.size()), 1),
                              memory, ExecutionModel::edges);
  r.preds.clear();
  r.pred_offsets = {0};
  std::uint32_t i = 0;
  for (const KernelRow* row : rows) {
    if (i > 0) r.preds.push_back(i - 1);
    r.pred_offsets.push_back(static_cast<std::uint32_t>(r.preds.size()));
    r.launches[i++].kernel = row;
  }
  return r;
}

void set_preds(Recording& r, const std::vector<std::vector<std::uint32_t>>& preds) {
  r.preds.clear();
  r.pred_offsets = {0};
  for (const auto& list : preds) {
    r.preds.insert(r.preds.end(), list.begin(), list.end());
    r.pred_offsets.push_back(static_cast<std::uint32_t>(r.preds.size()));
  }
}

Edges programmatic(const GraphShape& shape) {
  Edges edges;
  for (const GraphShape::Edge& e : shape.edges) {
    if (e.programmatic) edges.emplace(e.from, e.to);
  }
  return edges;
}
Edges all_edges(const GraphShape& shape) {
  Edges edges;
  for (const GraphShape::Edge& e : shape.edges) edges.emplace(e.from, e.to);
  return edges;
}

TEST(CudaEdges, AreProgrammaticBetweenKernelsThatBothWait) {
  const Recording r = chain_of({&waiting, &waiting, &plain, &waiting, &waiting});
  EXPECT_EQ(programmatic(cuda::graph_shape(r, {.programmatic = true})), (Edges{{0, 1}, {3, 4}}));
  EXPECT_TRUE(programmatic(cuda::graph_shape(r)).empty());
}

TEST(CudaEdges, ArePlainWhereTimesOrOrderAreAskedFor) {
  Recording r = chain_of({&waiting, &waiting, &waiting});
  r.timed = true;
  EXPECT_TRUE(programmatic(cuda::graph_shape(r, {.programmatic = true})).empty());
  r.timed = false;
  r.serial = true;
  EXPECT_TRUE(programmatic(cuda::graph_shape(r, {.programmatic = true})).empty());
}

TEST(CudaEdges, OfSeveralOnlyTheNearestIsProgrammatic) {
  Recording r = chain_of({&waiting, &waiting, &waiting, &waiting});
  set_preds(r, {{}, {}, {0}, {0, 1, 2}});
  EXPECT_EQ(programmatic(cuda::graph_shape(r, {.programmatic = true})), (Edges{{0, 2}, {2, 3}}));
  r.launches[2].kernel = &plain;
  EXPECT_TRUE(programmatic(cuda::graph_shape(r, {.programmatic = true})).empty());
}

TEST(CudaEdges, NoFenceOrEmptyLaunchTakesPart) {
  Recording r = chain_of({&waiting, &waiting, &waiting, &waiting});
  r.launches[1].launch.grid = {0, 1, 1};
  EXPECT_EQ(programmatic(cuda::graph_shape(r, {.programmatic = true})), (Edges{{2, 3}}));
}

TEST(CudaEdges, WhatIsReadEarlyMayNotBeWrittenBefore) {
  // Launch 2 reads cell 7 early; nobody writes it, or this launch does.
  for (const int writer : {-1, 0, 1, 3}) {
    Recording r = chain_of({&waiting, &waiting, &early, &waiting});
    r.launches[2].views[0] = BoundView{memory, 7 * testing::cell_bytes, testing::cell_bytes};
    if (writer >= 0) {
      r.launches[static_cast<std::size_t>(writer)].views[0] =
          BoundView{memory, 8 * testing::cell_bytes - 1, 2};
    }
    const bool before = writer == 0 || writer == 1;
    EXPECT_EQ(programmatic(cuda::graph_shape(r, {.programmatic = true})),
              before ? (Edges{{0, 1}, {2, 3}}) : (Edges{{0, 1}, {1, 2}, {2, 3}}))
        << writer;
  }
}

TEST(CudaEdges, LaunchesThatFillTheDeviceStandInARow) {
  // 0 -> {1, 2} -> 3
  Recording r = chain_of({&waiting, &waiting, &waiting, &waiting});
  const auto shape = [&](std::uint32_t first, std::uint32_t second) {
    set_preds(r, {{}, {0}, {0}, {1, 2}});
    r.launches[1].launch.grid = {first / 2, 2, 1};
    r.launches[2].launch.grid = {second, 1, 1};
    return cuda::graph_shape(r, {.programmatic = true, .compute_units = 132});
  };
  const Edges row{{0, 1}, {1, 2}, {1, 3}, {2, 3}}, branches{{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  EXPECT_EQ(all_edges(shape(132, 4)), row);
  EXPECT_EQ(all_edges(shape(4, 132)), row);
  EXPECT_EQ(all_edges(shape(130, 131)), branches);
  EXPECT_EQ(shape(130, 131).chained, 0u);
  EXPECT_EQ(shape(4, 500).chained, 1u);
  EXPECT_EQ(programmatic(shape(4, 500)), (Edges{{0, 1}, {1, 2}, {2, 3}}));
}

// What must hold in every execution: before the dependent accesses of a launch, everything that
// the recording orders before it is complete, and before its early reads, everything that writes
// those bytes.
TEST(CudaEdges, KeepEveryOrderOfRandomRecordings) {
  const std::array rows{&waiting, &plain, &early};
  std::size_t n_programmatic = 0, n_chained = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 rng(seed);
    Recording r = testing::make_recording(testing::random_program(seed, 40, 24, 0.05), memory,
                                          ExecutionModel::edges);
    for (RecordedLaunch& l : r.launches) {
      if (l.is_fence()) continue;
      l.kernel = rows[rng() % rows.size()];
      if (l.n_views == 1 && l.kernel == &early) l.kernel = &waiting;
      l.launch.grid = {static_cast<std::uint32_t>(1 + rng() % 200), 1, 1};
    }
    const GraphShape shape = cuda::graph_shape(r, {.programmatic = true, .compute_units = 132});
    n_chained += shape.chained;
    const std::size_t n = r.launches.size();
    ASSERT_EQ(shape.nodes.size(), n);
    // complete[v]: done before v's dependent accesses; started[v]: done before v starts.
    std::vector<std::vector<bool>> complete(n, std::vector<bool>(n)), started = complete,
                                                                      demanded = complete;
    const auto include = [n](std::vector<bool>& to, const std::vector<bool>& from) {
      for (std::size_t i = 0; i < n; ++i) to[i] = to[i] || from[i];
    };
    for (std::uint32_t v = 0; v < n; ++v) {
      for (const GraphShape::Edge& e : shape.edges) {
        if (e.to != v) continue;
        complete[v][e.from] = true;
        include(complete[v], complete[e.from]);
        if (e.programmatic) {
          ++n_programmatic;
          // Completion carries over only because both wait before they end.
          ASSERT_TRUE(r.launches[e.from].kernel->waits_first && r.launches[v].kernel->waits_first);
          include(started[v], started[e.from]);
        } else {
          started[v][e.from] = true;
          include(started[v], complete[e.from]);
        }
      }
      for (std::uint32_t p = r.pred_offsets[v]; p < r.pred_offsets[v + 1]; ++p) {
        demanded[v][r.preds[p]] = true;
        include(demanded[v], demanded[r.preds[p]]);
      }
      for (std::uint32_t u = 0; u < n; ++u) {
        if (!demanded[v][u]) continue;
        EXPECT_TRUE(complete[v][u]) << seed << ": " << u << ", " << v;
        const RecordedLaunch &a = r.launches[u], &b = r.launches[v];
        if (a.is_fence() || b.is_fence() || b.kernel->reads_early == 0) continue;
        // hash's launches write their last view; slots of custom kernels all count as written.
        const bool writes = a.views[a.n_views - 1u].offset == b.views[0].offset;
        EXPECT_TRUE(!writes || started[v][u]) << seed << ": " << u << ", " << v;
      }
    }
  }
  EXPECT_GT(n_programmatic, 100u);
  EXPECT_GT(n_chained, 100u);
}

TEST(CudaEdges, TheDriverIsToldAndTheOptionTurnsThemOff) {
  const cuda::Driver driver = FakeDriver::table();
  FakeDriver& fake = FakeDriver::get();
  fake.reset();
  const char image[] = "image";
  const std::array rows{waiting};
  const std::array images{cuda::KernelImage{rows, image}};
  for (const bool plain_edges : {false, true}) {
    auto backend = cuda::open_device(driver, images, 0, {.plain_edges = plain_edges});
    ASSERT_TRUE(backend);
    const auto recorded = (*backend)->record(chain_of({&rows[0], &rows[0], &rows[0]}));
    ASSERT_TRUE(recorded) << recorded.error().to_string();
    const testing::FakeGraph& graph = fake.instantiated.back();
    EXPECT_EQ(graph.edges, (Edges{{0, 1}, {1, 2}}));
    EXPECT_EQ(graph.programmatic, plain_edges ? Edges{} : (Edges{{0, 1}, {1, 2}}));
  }
  EXPECT_EQ(fake.live(), 0u);
  fake.reset();
}

}  // namespace
}  // namespace onepass
