#include "graph/hazards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "support/bitmap_oracle.h"
#include "support/model_programs.h"
#include "support/random_program.h"

namespace {
std::atomic<std::size_t> n_allocations{0};
}

// Not inlined: g++ 12 takes the malloc and free inside for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  n_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* p = operator new(bytes, std::nothrow)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }

namespace onepass::graph::hazards_test {
namespace {

using test::BitRows;
using test::Bytes;
using test::dependencies_of;
using test::ProgramBuilder;
using test::Random;

BitRows ancestor_rows(const Dag& dag) {
  BitRows rows(dag.size());
  for (std::uint32_t j = 0; j < dag.size(); ++j) {
    for (std::uint32_t i = 0; i < dag.size(); ++i) rows[j][i] = dag.ancestors.test(j, i);
  }
  return rows;
}

// Longest path over all conflicts, by relaxation until nothing changes.
std::vector<std::uint32_t> brute_levels(const Program& program, const BitRows& conflict) {
  std::vector<std::uint32_t> level(program.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::uint32_t j = 0; j < program.size(); ++j) {
      for (std::uint32_t i = 0; i < j; ++i) {
        const std::uint32_t weight = program.kinds[i] == NodeKind::fence ? 0 : 1;
        if (!conflict[j][i] || level[i] + weight <= level[j]) continue;
        level[j] = level[i] + weight;
        changed = true;
      }
    }
  }
  return level;
}

void expect_exact(const Program& program, const Dag& dag) {
  const BitRows conflict = test::bitmap_conflicts(program);
  const BitRows closure = test::transitive_closure(conflict);
  ASSERT_EQ(dag.size(), program.size());
  ASSERT_EQ(dag.pred_offsets.size(), program.size() + std::size_t{1});
  const BitRows edges = test::edges_of(dag);
  EXPECT_EQ(test::transitive_closure(edges), closure);
  EXPECT_TRUE(dag.reduced);
  EXPECT_EQ(ancestor_rows(dag), closure);
  EXPECT_GE(dag.edges_found, dag.preds.size());
  for (std::uint32_t j = 0; j < program.size(); ++j) {
    const auto preds = dag.preds_of(j);
    EXPECT_TRUE(std::is_sorted(preds.begin(), preds.end(), std::less_equal<>()));
    for (const std::uint32_t i : preds) {
      // Without this edge no other path leads from i to j.
      bool detour = false;
      for (const std::uint32_t k : preds) detour = detour || closure[k][i];
      EXPECT_FALSE(detour) << "edge " << i << " -> " << j << " follows from others";
    }
  }
  EXPECT_EQ(dag.level, brute_levels(program, conflict));
  std::uint32_t n_levels = 0;
  for (std::uint32_t j = 0; j < program.size(); ++j) {
    if (program.kinds[j] != NodeKind::fence) n_levels = std::max(n_levels, dag.level[j] + 1);
  }
  EXPECT_EQ(dag.n_levels, n_levels);
}

TEST(Dependencies, EqualTheBitmapOracleOnRandomPrograms) {
  HazardWorkspace workspace;
  Dag dag;
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    test::RandomProgramOptions options;
    if (seed % 4 == 1) options.max_regions = 2;
    if (seed % 4 == 2) options.max_ranges = 10;
    if (seed % 4 == 3) options.fence_percent = options.opaque_percent = 10;
    if (seed % 50 == 0) {  // ancestor rows of several words
      options.min_nodes = 65;
      options.max_nodes = 256;
      options.max_regions = 24;
    }
    const ProgramBuilder builder = test::random_program(seed, options);
    dependencies(builder.program(), workspace, dag);
    expect_exact(builder.program(), dag);
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// Removing an edge of the reduction must lose order: checked literally, on fewer programs.
TEST(Dependencies, RemovingAnyEdgeChangesTheClosure) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const ProgramBuilder builder = test::random_program(seed);
    const Dag dag = dependencies_of(builder.program());
    BitRows edges = test::edges_of(dag);
    const BitRows closure = test::transitive_closure(edges);
    for (std::uint32_t j = 0; j < dag.size(); ++j) {
      for (const std::uint32_t i : dag.preds_of(j)) {
        edges[j][i] = false;
        ASSERT_NE(test::transitive_closure(edges), closure) << "seed " << seed;
        edges[j][i] = true;
      }
    }
  }
}

TEST(Dependencies, AdjacentViewsAreIndependent) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    ProgramBuilder b;
    const Bytes whole = b.buffer(1000);
    std::vector<Bytes> cells;
    for (std::uint64_t at = 0; at < 1000;) {
      const std::uint64_t end = std::min<std::uint64_t>(1000, at + random.in(1, 50));
      cells.push_back({whole.region, at, end});
      at = end;
    }
    for (std::size_t i = cells.size(); i-- > 1;) {
      std::swap(cells[i], cells[random.in(0, static_cast<std::uint32_t>(i))]);
    }
    for (const Bytes& cell : cells) b.dispatch({cell}, {cell});
    const Dag dag = dependencies_of(b.program());
    EXPECT_EQ(dag.preds.size(), 0u);
    EXPECT_EQ(dag.n_levels, 1u);
  }
}

TEST(Dependencies, ReadOnlyMemoryAndEmptyRangesOrderNothing) {
  ProgramBuilder b;
  const Bytes x = b.buffer(64), y = b.buffer(64);
  for (int i = 0; i < 50; ++i) b.dispatch({x, {y.region, 8, 8}}, {{y.region, 9, 9}});
  const Dag dag = dependencies_of(b.program());
  EXPECT_EQ(dag.edges_found, 0u);
  EXPECT_EQ(dag.n_levels, 1u);
}

TEST(Dependencies, FencesAreOrderPointsOfNoWeight) {
  ProgramBuilder b;
  const Bytes x = b.buffer(8), y = b.buffer(8), z = b.buffer(8);
  b.fence();
  b.dispatch({}, {x});
  b.dispatch({}, {y});
  b.fence();
  b.fence();
  b.dispatch({}, {z});
  b.dispatch({z}, {x});
  b.fence();
  const Dag dag = dependencies_of(b.program());
  EXPECT_EQ(dag.level, (std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1, 2, 3}));
  EXPECT_EQ(dag.n_levels, 3u);
  const auto preds = [&](std::uint32_t i) {
    return std::vector<std::uint32_t>(dag.preds_of(i).begin(), dag.preds_of(i).end());
  };
  EXPECT_EQ(preds(3), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(preds(4), (std::vector<std::uint32_t>{3}));
  EXPECT_EQ(preds(5), (std::vector<std::uint32_t>{4}));
  EXPECT_EQ(preds(6), (std::vector<std::uint32_t>{5}));
}

TEST(Dependencies, FencesNeedNoQuadraticEdges) {
  constexpr std::uint32_t half = 20000;
  ProgramBuilder b;
  for (std::uint32_t i = 0; i < half; ++i) b.dispatch({}, {b.buffer(4)});
  b.fence();
  for (std::uint32_t i = 0; i < half; ++i) b.dispatch({}, {b.buffer(4)});
  b.opaque();
  const Dag dag = dependencies_of(b.program());
  EXPECT_EQ(dag.preds.size(), std::size_t{3} * half);
  EXPECT_EQ(dag.n_levels, 3u);
}

TEST(Dependencies, AboveTheExactLimitCompleteWithExactLevels) {
  // Pieces a fence apart, each small enough for the oracle, together above the limit.
  ProgramBuilder all;
  std::vector<ProgramBuilder> pieces;
  std::vector<std::uint32_t> starts;
  std::uint32_t n = 0;
  for (std::uint64_t seed = 0; n <= max_exact; ++seed) {
    test::RandomProgramOptions options;
    options.fence_percent = options.opaque_percent = 0;
    pieces.push_back(test::random_program(seed, options));
    const Program piece = pieces.back().program();
    std::vector<Bytes> regions;
    for (const std::uint64_t bytes : pieces.back().region_bytes()) {
      regions.push_back(all.buffer(bytes));
    }
    starts.push_back(n);
    for (std::uint32_t node = 0; node < piece.size(); ++node) {
      for (const Range& r : piece.ranges_of(node)) {
        all.add_range({regions[r.region].region, r.lo, r.hi}, r.write);
      }
      all.close(NodeKind::dispatch, true);
    }
    n = all.fence() + 1;
  }
  const Dag dag = dependencies_of(all.program());
  EXPECT_FALSE(dag.reduced);
  EXPECT_TRUE(dag.ancestors.empty());
  std::uint32_t base_level = 0;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const Program piece = pieces[p].program();
    const Dag expected = dependencies_of(piece);
    BitRows edges(piece.size());
    for (std::uint32_t j = 0; j < piece.size(); ++j) {
      EXPECT_EQ(dag.level[starts[p] + j], base_level + expected.level[j]);
      for (const std::uint32_t i : dag.preds_of(starts[p] + j)) {
        if (i >= starts[p]) {
          edges[j][i - starts[p]] = true;
        } else {
          EXPECT_EQ(i, starts[p] - 1);
        }
      }
    }
    EXPECT_EQ(test::transitive_closure(edges), ancestor_rows(expected));
    base_level += expected.n_levels;
  }
}

TEST(Dependencies, ModelProgramsEqualPairwiseRangeTests) {
  for (const auto& [name, builder] : test::all_model_programs(3)) {
    const Program program = builder.program();
    BitRows conflict(program.size());
    for (std::uint32_t j = 0; j < program.size(); ++j) {
      for (std::uint32_t i = 0; i < j; ++i) {
        for (const Range& a : program.ranges_of(i)) {
          for (const Range& b : program.ranges_of(j)) {
            if (a.region == b.region && a.lo < b.hi && b.lo < a.hi && (a.write || b.write)) {
              conflict[j][i] = true;
            }
          }
        }
      }
    }
    EXPECT_EQ(ancestor_rows(dependencies_of(program)), test::transitive_closure(conflict)) << name;
  }
}

TEST(Dependencies, AllocatesNothingAfterWarmUp) {
  const ProgramBuilder moe = test::qwen3_moe({.layers = 6}, true);
  std::vector<ProgramBuilder> programs;
  for (std::uint64_t seed = 0; seed < 20; ++seed) programs.push_back(test::random_program(seed));
  HazardWorkspace workspace;
  Dag dag;
  const auto run_all = [&] {
    for (const auto& p : programs) dependencies(p.program(), workspace, dag);
    dependencies(moe.program(), workspace, dag);
  };
  run_all();
  const std::size_t before = n_allocations.load();
  run_all();
  EXPECT_EQ(n_allocations.load(), before);
}

TEST(Dependencies, WorkspaceMovesAndEmptyProgramsWork) {
  HazardWorkspace first;
  Dag dag;
  dependencies(ProgramBuilder().program(), first, dag);
  EXPECT_EQ(dag.size(), 0u);
  EXPECT_EQ(dag.n_levels, 0u);
  HazardWorkspace second(std::move(first));
  const ProgramBuilder builder = test::random_program(3);
  dependencies(builder.program(), second, dag);
  expect_exact(builder.program(), dag);
  first = std::move(second);
  dependencies(builder.program(), second, dag);
  expect_exact(builder.program(), dag);
}

// The group as two byte maps per region.
struct BitmapGroup {
  std::vector<std::vector<std::uint8_t>> touched, written;
  BitmapGroup(std::uint32_t regions, std::size_t bytes)
      : touched(regions, std::vector<std::uint8_t>(bytes)), written(touched) {}
  bool conflicts(std::span<const Range> ranges) const {
    for (const Range& r : ranges) {
      for (std::uint64_t b = r.lo; b < r.hi; ++b) {
        if ((r.write ? touched : written)[r.region][b] != 0) return true;
      }
    }
    return false;
  }
  void add(std::span<const Range> ranges) {
    for (const Range& r : ranges) {
      for (std::uint64_t b = r.lo; b < r.hi; ++b) {
        touched[r.region][b] = 1;
        if (r.write) written[r.region][b] = 1;
      }
    }
  }
};

Range random_range(Random& random, std::uint32_t regions, std::uint32_t bytes) {
  const std::uint32_t lo = random.in(0, bytes);
  const std::uint32_t hi =
      random.percent(50) ? random.in(lo, bytes) : std::min(bytes, lo + random.in(0, 4));
  return {lo, hi, random.in(0, regions - 1), random.percent(40)};
}

TEST(GroupTracker, EqualsTheBitmapOnRandomPairs) {
  Random random(1);
  GroupTracker tracker;
  std::size_t n_conflicts = 0;
  for (int pair = 0; pair < 100000; ++pair) {
    const Range a = random_range(random, 2, 24), b = random_range(random, 2, 24);
    BitmapGroup expected(2, 24);
    tracker.reset();
    tracker.add({&a, 1});
    expected.add({&a, 1});
    const bool conflict = tracker.conflicts({&b, 1});
    ASSERT_EQ(conflict, expected.conflicts({&b, 1}));
    // Symmetric.
    GroupTracker other;
    other.add({&b, 1});
    ASSERT_EQ(other.conflicts({&a, 1}), conflict);
    n_conflicts += conflict;
  }
  EXPECT_GT(n_conflicts, 5000u);
  EXPECT_LT(n_conflicts, 95000u);
}

TEST(GroupTracker, EqualsTheBitmapOnRandomGroups) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    GroupTracker tracker;
    BitmapGroup expected(3, 64);
    for (int i = 0; i < 40; ++i) {
      std::vector<Range> ranges;
      for (std::uint32_t k = random.in(0, 3); k > 0; --k)
        ranges.push_back(random_range(random, 3, 64));
      ASSERT_EQ(tracker.conflicts(ranges), expected.conflicts(ranges)) << "seed " << seed;
      tracker.add(ranges);
      expected.add(ranges);
    }
  }
}

TEST(GroupTracker, CountsRangesAndKnowsWhetherItIsEmpty) {
  GroupTracker tracker;
  const Range ranges[] = {{0, 4, 0, false}, {4, 8, 0, true}, {2, 6, 0, false}, {5, 5, 0, true}};
  EXPECT_TRUE(tracker.empty());
  tracker.add({});
  EXPECT_FALSE(tracker.empty());
  EXPECT_EQ(tracker.size(), 0u);
  tracker.add(ranges);
  EXPECT_EQ(tracker.size(), 3u);
  tracker.reset();
  EXPECT_TRUE(tracker.empty());
  EXPECT_EQ(tracker.size(), 0u);
}

TEST(GroupTracker, OpaqueConflictsWithAllUntilReset) {
  GroupTracker tracker;
  EXPECT_TRUE(tracker.empty());
  EXPECT_FALSE(tracker.conflicts({}));
  tracker.add_opaque();
  EXPECT_FALSE(tracker.empty());
  EXPECT_TRUE(tracker.is_opaque());
  EXPECT_TRUE(tracker.conflicts({}));
  const Range r{0, 4, 3, false};
  EXPECT_TRUE(tracker.conflicts({&r, 1}));
  tracker.reset();
  EXPECT_TRUE(tracker.empty());
  EXPECT_FALSE(tracker.conflicts({&r, 1}));
}

}  // namespace
}  // namespace onepass::graph::hazards_test
