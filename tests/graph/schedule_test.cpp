#include "graph/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "graph/ancestor/greedy_order.h"
#include "graph/hazards.h"
#include "support/bitmap_oracle.h"
#include "support/model_programs.h"
#include "support/random_program.h"

namespace onepass::graph::schedule_test {
namespace {

using test::BitRows;
using test::Bytes;
using test::dependencies_of;
using test::ProgramBuilder;
using Order = std::vector<std::uint32_t>;

bool full_run() {
  const char* value = std::getenv("ONEPASS_FULL");
  return value != nullptr && std::string_view(value) == "1";
}

Order recorded_order(const Program& program) {
  Order order(program.size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

std::size_t n_barriers(const Program& program, const Order& order) {
  return barrier_positions(program, order).size();
}

// Every conflicting pair keeps its recorded order and, between dispatches, a barrier lies between.
void expect_sound(const Program& program, const BitRows& conflict, const Order& order) {
  ASSERT_EQ(order.size(), program.size());
  std::vector<std::uint32_t> position(order.size(), UINT32_MAX), group(order.size(), 0);
  const auto barriers = barrier_positions(program, order);
  std::size_t passed = 0;
  for (std::uint32_t k = 0; k < order.size(); ++k) {
    if (passed < barriers.size() && barriers[passed] == k) ++passed;
    ASSERT_LT(order[k], order.size());
    ASSERT_EQ(position[order[k]], UINT32_MAX) << "twice in the order";
    position[order[k]] = k;
    group[order[k]] = static_cast<std::uint32_t>(passed);
  }
  ASSERT_EQ(passed, barriers.size());
  for (std::uint32_t j = 0; j < program.size(); ++j) {
    for (std::uint32_t i = 0; i < j; ++i) {
      if (!conflict[j][i]) continue;
      EXPECT_LT(position[i], position[j]);
      if (program.kinds[i] == NodeKind::fence || program.kinds[j] == NodeKind::fence) continue;
      EXPECT_LT(group[i], group[j]) << i << " and " << j << " share a group";
    }
  }
}

// Fewest groups of any schedule, searched over all sets of finished nodes.
std::uint32_t fewest_groups(const Program& program, const BitRows& conflict) {
  const std::uint32_t n = program.size();
  std::vector<std::uint32_t> needs(n, 0);
  for (std::uint32_t j = 0; j < n; ++j) {
    for (std::uint32_t i = 0; i < j; ++i) {
      if (conflict[j][i]) needs[j] |= 1u << i;
    }
  }
  const auto pass_fences = [&](std::uint32_t done) {
    for (std::uint32_t j = 0; j < n; ++j) {
      if (program.kinds[j] == NodeKind::fence && (needs[j] & ~done) == 0) done |= 1u << j;
    }
    return done;
  };
  std::vector<std::uint8_t> seen(std::size_t{1} << n, 0);
  std::vector<std::uint32_t> frontier{pass_fences(0)};
  for (std::uint32_t groups = 0;; ++groups) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t done : frontier) {
      if (done == (1u << n) - 1) return groups;
      std::uint32_t ready = 0;
      for (std::uint32_t j = 0; j < n; ++j) {
        if ((done >> j & 1u) == 0 && (needs[j] & ~done) == 0) ready |= 1u << j;
      }
      for (std::uint32_t group = ready; group != 0; group = (group - 1) & ready) {
        const std::uint32_t after = pass_fences(done | group);
        if (seen[after] != 0) continue;
        seen[after] = 1;
        next.push_back(after);
      }
    }
    frontier = std::move(next);
  }
}

// Fewest barriers of any order that keeps conflicting pairs in recorded order.
std::size_t fewest_barriers_of_orders(const Program& program, const BitRows& conflict) {
  std::size_t fewest = SIZE_MAX;
  Order order;
  const auto extend = [&](const auto& self, std::uint32_t done) -> void {
    if (order.size() == program.size()) {
      fewest = std::min(fewest, n_barriers(program, order));
      return;
    }
    for (std::uint32_t j = 0; j < program.size(); ++j) {
      bool ready = (done >> j & 1u) == 0;
      for (std::uint32_t i = 0; i < j && ready; ++i)
        ready = !conflict[j][i] || (done >> i & 1u) != 0;
      if (!ready) continue;
      order.push_back(j);
      self(self, done | 1u << j);
      order.pop_back();
    }
  };
  extend(extend, 0);
  return fewest;
}

std::uint32_t longest_chain(const Program& program, const BitRows& conflict) {
  std::vector<std::uint32_t> chain(program.size(), 0);  // dispatches, itself included
  std::uint32_t longest = 0;
  for (std::uint32_t j = 0; j < program.size(); ++j) {
    for (std::uint32_t i = 0; i < j; ++i) {
      if (conflict[j][i]) chain[j] = std::max(chain[j], chain[i]);
    }
    if (program.kinds[j] != NodeKind::fence) ++chain[j];
    longest = std::max(longest, chain[j]);
  }
  return longest;
}

test::RandomProgramOptions small_programs(std::uint32_t max_nodes) {
  test::RandomProgramOptions options;
  options.min_nodes = 1;
  options.max_nodes = max_nodes;
  options.max_regions = 5;
  options.max_region_bytes = 16;
  options.fence_percent = 5;
  options.opaque_percent = 3;
  return options;
}

void expect_fewest(std::uint64_t seed, std::uint32_t max_nodes) {
  const ProgramBuilder builder = test::random_program(seed, small_programs(max_nodes));
  const Program program = builder.program();
  const BitRows conflict = test::bitmap_conflicts(program);
  const Dag dag = dependencies_of(program);
  const std::uint32_t groups = fewest_groups(program, conflict);
  ASSERT_EQ(dag.n_levels, groups) << "seed " << seed;
  ASSERT_EQ(longest_chain(program, conflict), groups) << "seed " << seed;
  ASSERT_EQ(n_barriers(program, level_order(program, dag)), groups == 0 ? 0 : groups - 1)
      << "seed " << seed;
}

void expect_fewest_for_all(std::uint64_t first_seed, std::uint64_t n, std::uint32_t max_nodes) {
  for (std::uint64_t seed = first_seed; seed < first_seed + n; ++seed) {
    expect_fewest(seed, max_nodes);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(LevelOrder, HasTheFewestBarriersOfAllSchedules) {
  expect_fewest_for_all(0, 2000, 8);
  expect_fewest_for_all(100000, 2000, 12);
}

TEST(LevelOrder, HasTheFewestBarriersOfAllSchedulesFullRun) {
  if (!full_run()) GTEST_SKIP() << "set ONEPASS_FULL=1";
  expect_fewest_for_all(100000, 10000, 12);
  expect_fewest_for_all(200000, 10000, 16);
}

TEST(LevelOrder, HasTheFewestBarriersOfAllOrders) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const ProgramBuilder builder = test::random_program(seed, small_programs(6));
    const Program program = builder.program();
    const BitRows conflict = test::bitmap_conflicts(program);
    const Order order = level_order(program, dependencies_of(program));
    ASSERT_EQ(n_barriers(program, order), fewest_barriers_of_orders(program, conflict)) << seed;
  }
}

TEST(LevelOrder, IsSoundAndSortedByLevel) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const ProgramBuilder builder = test::random_program(seed);
    const Program program = builder.program();
    const Dag dag = dependencies_of(program);
    const Order order = level_order(program, dag);
    expect_sound(program, test::bitmap_conflicts(program), order);
    for (std::size_t k = 1; k < order.size(); ++k) {
      const bool stable = dag.level[order[k - 1]] != dag.level[order[k]] ||
                          order[k - 1] < order[k] || program.kinds[order[k - 1]] == NodeKind::fence;
      EXPECT_LE(dag.level[order[k - 1]], dag.level[order[k]]);
      EXPECT_TRUE(stable);
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(GreedyOrder, IsSoundOnRandomPrograms) {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const ProgramBuilder builder = test::random_program(seed);
    const Program program = builder.program();
    const BitRows conflict = test::bitmap_conflicts(program);
    for (const std::uint32_t window : {0u, 1u, 2u, 7u, 64u, UINT32_MAX}) {
      const Order order = greedy_order(program, builder.movable(), window);
      expect_sound(program, conflict, order);
      if (window < 2) {
        EXPECT_EQ(order, recorded_order(program));
      }
      EXPECT_GE(n_barriers(program, order) + 1, dependencies_of(program).n_levels);
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// With an endless window and every node movable the greedy groups are the levels.
TEST(GreedyOrder, IsExactWithoutLimits) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    test::RandomProgramOptions options;
    options.fence_percent = options.opaque_percent = 0;
    const ProgramBuilder builder = test::random_program(seed, options);
    const Program program = builder.program();
    const Order order = greedy_order(program, {}, UINT32_MAX);
    ASSERT_EQ(n_barriers(program, order) + 1, dependencies_of(program).n_levels) << seed;
  }
}

struct GoldenNode {
  std::uint32_t read, write;
  char kind = 'd';  // s: may not be moved, o: opaque
};

ProgramBuilder golden_program(const std::vector<GoldenNode>& nodes, std::uint32_t n_buffers) {
  ProgramBuilder b;
  std::vector<Bytes> buffers;
  for (std::uint32_t i = 0; i < n_buffers; ++i) buffers.push_back(b.buffer(256));
  for (const GoldenNode& node : nodes) {
    if (node.kind == 'o') {
      b.opaque();
    } else {
      b.dispatch({buffers[node.read]}, {buffers[node.write]}, node.kind != 's');
    }
  }
  return b;
}

struct GoldenCase {
  const char* name;
  std::vector<GoldenNode> nodes;
  Order order;
  std::uint32_t moved;
  std::size_t barriers_before, barriers_after;
};

TEST(GreedyOrder, GoldenVectors) {
  const GoldenCase cases[] = {
      {"two chains", {{0, 1}, {1, 2}, {3, 4}, {4, 5}}, {0, 2, 1, 3}, 2, 2, 1},
      {"stop", {{0, 1}, {1, 2}, {3, 4, 's'}, {5, 6}}, {0, 1, 2, 3}, 0, 1, 1},
      {"immovable overtaken", {{0, 1}, {1, 2, 's'}, {3, 4}, {5, 6}}, {0, 2, 3, 1}, 3, 1, 1},
      {"skip set", {{0, 1}, {1, 2}, {2, 3}, {4, 2}, {5, 6}}, {0, 4, 1, 2, 3}, 4, 3, 3},
      {"opaque", {{0, 1}, {1, 2}, {0, 0, 'o'}, {2, 3}}, {0, 1, 2, 3}, 0, 3, 3},
  };
  for (const GoldenCase& c : cases) {
    const ProgramBuilder builder = golden_program(c.nodes, 7);
    const Program program = builder.program();
    const Order order = greedy_order(program, builder.movable());
    EXPECT_EQ(order, c.order) << c.name;
    EXPECT_EQ(moved_count(program, order), c.moved) << c.name;
    EXPECT_EQ(n_barriers(program, recorded_order(program)), c.barriers_before) << c.name;
    EXPECT_EQ(n_barriers(program, order), c.barriers_after) << c.name;
  }
}

TEST(GreedyOrder, GoldenWindow) {
  struct Row {
    std::uint32_t distance, position, moved;
  };
  for (const Row row : {Row{62, 1, 63}, Row{63, 1, 64}, Row{64, 2, 64}}) {
    std::vector<GoldenNode> nodes;
    const std::uint32_t chain = row.distance + 1;
    for (std::uint32_t i = 0; i < chain; ++i) nodes.push_back({i, i + 1});
    nodes.push_back({chain + 1, chain + 2});
    const ProgramBuilder builder = golden_program(nodes, chain + 3);
    const Program program = builder.program();
    const Order order = greedy_order(program, builder.movable());
    EXPECT_EQ(order[row.position], chain) << row.distance;
    EXPECT_EQ(moved_count(program, order), row.moved) << row.distance;
  }
}

TEST(BarrierPositions, FencesCountOnceAndOnlyBetweenDispatches) {
  ProgramBuilder b;
  const Bytes x = b.buffer(4), y = b.buffer(4), z = b.buffer(4);
  b.fence();
  b.dispatch({}, {x});
  b.fence();
  b.fence();
  b.dispatch({}, {y});
  b.dispatch({}, {z});
  b.fence();
  const Program program = b.program();
  EXPECT_EQ(barrier_positions(program, recorded_order(program)), Order{4});
  EXPECT_EQ(level_order(program, dependencies_of(program)), recorded_order(program));
}

TEST(BarrierPositions, OpaqueSeparatesDispatchesWithoutRanges) {
  ProgramBuilder b;
  b.dispatch({}, {});
  b.opaque();
  b.dispatch({}, {});
  b.dispatch({}, {});
  const Program program = b.program();
  EXPECT_EQ(barrier_positions(program, recorded_order(program)), (Order{1, 2}));
  EXPECT_EQ(dependencies_of(program).n_levels, 3u);
}

TEST(MovedCount, IgnoresFences) {
  ProgramBuilder b;
  const Bytes x = b.buffer(4), y = b.buffer(4);
  b.dispatch({}, {x});
  b.fence();
  b.dispatch({}, {y});
  b.dispatch({y}, {x});
  EXPECT_EQ(moved_count(b.program(), Order{1, 0, 2, 3}), 0u);
  EXPECT_EQ(moved_count(b.program(), Order{0, 1, 3, 2}), 2u);
}

struct ModelCounts {
  const char* name;
  std::uint32_t dispatches;
  std::size_t recorded, exact, greedy;
};

// Barriers of one decode token, 8 layers; attention, softmax and top-k may not be moved by greedy.
TEST(ModelPrograms, KnownDispatchAndBarrierCounts) {
  const ModelCounts known[] = {
      {"llama_dense", 138, 105, 97, 97},   {"qwen3_dense", 154, 121, 105, 105},
      {"qwen3_moe", 274, 233, 201, 201},   {"moe_shared_expert", 338, 273, 209, 209},
      {"parallel_block", 130, 89, 65, 65}, {"two_sequences", 276, 194, 97, 118},
  };
  const auto programs = test::all_model_programs(8);
  for (const ModelCounts& row : known) {
    const auto it = std::find_if(programs.begin(), programs.end(),
                                 [&](const auto& p) { return p.name == row.name; });
    ASSERT_NE(it, programs.end());
    const Program program = it->program.program();
    EXPECT_EQ(program.size(), row.dispatches) << row.name;
    EXPECT_EQ(n_barriers(program, recorded_order(program)), row.recorded) << row.name;
    const Order exact = level_order(program, dependencies_of(program));
    EXPECT_EQ(n_barriers(program, exact), row.exact) << row.name;
    EXPECT_EQ(n_barriers(program, greedy_order(program, {})), row.exact) << row.name;
    EXPECT_EQ(n_barriers(program, greedy_order(program, {}, 20)), row.exact) << row.name;
    EXPECT_EQ(n_barriers(program, greedy_order(program, it->program.movable())), row.greedy)
        << row.name;
  }
}

TEST(ModelPrograms, FullSizeMoeHasTheExpectedShape) {
  const ProgramBuilder moe = test::qwen3_moe({.layers = 48}, true);
  const Program program = moe.program();
  EXPECT_EQ(program.size(), 2018u);
  EXPECT_EQ(dependencies_of(program).n_levels, 1250u);
}

}  // namespace
}  // namespace onepass::graph::schedule_test
