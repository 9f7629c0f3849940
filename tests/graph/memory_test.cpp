#include "graph/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/hazards.h"
#include "support/level_aware_arena.h"
#include "support/model_programs.h"
#include "support/random_program.h"

namespace onepass::graph::memory_test {
namespace {

using test::Bytes;
using test::dependencies_of;
using test::ProgramBuilder;
using test::touches_of;

constexpr std::uint64_t alignment = 256;

std::uint64_t aligned(std::uint64_t bytes, std::uint64_t unit = alignment) {
  return (bytes + unit - 1) / unit * unit;
}

// Alignment, bounds, the ancestor rule for every two items that share bytes, and equal closures.
void expect_sound(const ProgramBuilder& builder, const Placement& placement, std::uint64_t unit) {
  const Program program = builder.program();
  const Dag dag = dependencies_of(program);
  const auto& items = builder.items();
  const auto touches = touches_of(builder);
  const auto all_before = [&](std::size_t a, std::size_t b) {
    for (const std::uint32_t u : touches[a]) {
      for (const std::uint32_t v : touches[b]) {
        if (!dag.ancestors.test(v, u)) return false;
      }
    }
    return true;
  };
  ASSERT_EQ(placement.offsets.size(), items.size());
  std::uint64_t sum = 0;
  for (std::size_t a = 0; a < items.size(); ++a) {
    const std::uint64_t a_lo = placement.offsets[a];
    EXPECT_EQ(a_lo % unit, 0u);
    if (touches[a].empty()) continue;
    sum += aligned(items[a].bytes, unit);
    EXPECT_LE(a_lo + items[a].bytes, placement.arena_bytes);
    for (std::size_t b = 0; b < a; ++b) {
      const std::uint64_t b_lo = placement.offsets[b];
      if (touches[b].empty() || a_lo >= b_lo + items[b].bytes || b_lo >= a_lo + items[a].bytes) {
        continue;
      }
      EXPECT_TRUE(all_before(a, b) || all_before(b, a)) << "items " << a << " and " << b;
    }
  }
  EXPECT_EQ(placement.unaliased_bytes, sum);
  EXPECT_LE(placement.arena_bytes, sum);

  const ProgramBuilder placed = test::on_physical_ranges(builder, placement);
  const Dag physical_dag = dependencies_of(placed.program());
  EXPECT_EQ(physical_dag.preds, dag.preds);
  EXPECT_EQ(physical_dag.pred_offsets, dag.pred_offsets);
  EXPECT_EQ(physical_dag.level, dag.level);
  for (std::uint32_t node = 0; node < program.size(); ++node) {
    const auto a = dag.ancestors.row(node), b = physical_dag.ancestors.row(node);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << "node " << node;
  }
}

TEST(PlaceScratch, KeepsTheAncestorRuleAndTheClosureOnRandomPrograms) {
  std::uint64_t aliased = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    test::RandomProgramOptions options;
    options.scratch = true;
    options.min_regions = 4;
    options.max_regions = 24;
    if (seed % 8 != 0) options.opaque_percent = 0;
    const std::uint64_t unit = std::uint64_t{1} << (seed % 5);
    const ProgramBuilder builder = test::random_program(seed, options);
    const Program program = builder.program();
    const Placement placement =
        place_scratch(program, dependencies_of(program), builder.items(), unit, true);
    expect_sound(builder, placement, unit);
    aliased += placement.arena_bytes < placement.unaliased_bytes ? 1 : 0;
    if (HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(aliased, 300u);
}

TEST(PlaceScratch, ModelArenasAreCloseToTheLevelAwareOne) {
  for (const std::uint32_t layers : {2u, 8u, 30u}) {
    for (const auto& [name, builder] : test::all_model_programs(layers)) {
      const Program program = builder.program();
      const Placement placement =
          place_scratch(program, dependencies_of(program), builder.items(), alignment, true);
      const std::uint64_t baseline = test::level_aware_arena(builder, alignment);
      EXPECT_LE(4 * placement.arena_bytes, 5 * baseline)
          << name << ", " << layers << " layers: " << placement.arena_bytes << " bytes, baseline "
          << baseline;
      RecordProperty(name + "_" + std::to_string(layers) + "_percent_of_level_aware",
                     static_cast<int>(100 * placement.arena_bytes / baseline));
      if (layers == 8) expect_sound(builder, placement, alignment);
    }
  }
}

TEST(PlaceScratch, ArenaOfOneStreamDoesNotGrowWithLayers) {
  const auto arena = [](std::uint32_t layers) {
    const ProgramBuilder builder = test::qwen3_moe({.layers = layers}, true);
    const Program program = builder.program();
    return place_scratch(program, dependencies_of(program), builder.items(), alignment, true)
        .arena_bytes;
  };
  EXPECT_LE(arena(48), arena(4) * 11 / 10);
}

// s0 -> s1 -> s2 -> output is a chain, `beside` has its own: the levels would let s2 take its
// bytes, but nothing orders the two.
TEST(PlaceScratch, LevelsAreNotEnoughToShare) {
  ProgramBuilder b;
  const Bytes input = b.buffer(64), output = b.buffer(64), other = b.buffer(64);
  const Bytes s0 = b.scratch(256), s1 = b.scratch(256), s2 = b.scratch(256),
              beside = b.scratch(256);
  b.dispatch({input}, {s0});
  b.dispatch({s0}, {s1});
  b.dispatch({s1}, {s2});
  b.dispatch({s2}, {output});
  b.dispatch({input}, {beside});
  b.dispatch({beside}, {other});
  const Program program = b.program();
  const Placement placement =
      place_scratch(program, dependencies_of(program), b.items(), alignment, true);
  EXPECT_EQ(placement.offsets[0], placement.offsets[2]);
  EXPECT_EQ(placement.arena_bytes, 3u * 256);
  EXPECT_EQ(placement.unaliased_bytes, 4u * 256);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(placement.offsets[3], placement.offsets[i]);
}

TEST(PlaceScratch, WithoutAliasingEveryTouchedItemHasItsOwnBytes) {
  ProgramBuilder b;
  const Bytes out = b.buffer(64), s0 = b.scratch(100), unused = b.scratch(5000),
              s1 = b.scratch(300);
  b.dispatch({}, {s0});
  b.dispatch({s0}, {s1});
  b.dispatch({s1}, {out});
  b.dispatch({{unused.region, 7, 7}}, {});
  const Program program = b.program();
  Dag dag = dependencies_of(program);
  const auto expect_apart = [](const Placement& p) {
    EXPECT_EQ(p.offsets, (std::vector<std::uint64_t>{0, 0, 256}));
    EXPECT_EQ(p.arena_bytes, 768u);
    EXPECT_EQ(p.unaliased_bytes, 768u);
  };
  expect_apart(place_scratch(program, dag, b.items(), alignment, false));
  dag.ancestors = {};
  expect_apart(place_scratch(program, dag, b.items(), alignment, true));
}

TEST(PlaceScratch, AnOpaqueNodeMayTouchEveryItem) {
  ProgramBuilder b;
  const Bytes s0 = b.scratch(256), s1 = b.scratch(256), out = b.buffer(4);
  b.scratch(256);
  b.dispatch({}, {s0});
  b.dispatch({s0}, {out});
  b.dispatch({out}, {s1});
  b.opaque();
  const Program program = b.program();
  const Placement p = place_scratch(program, dependencies_of(program), b.items(), alignment, true);
  EXPECT_EQ(p.arena_bytes, 3u * 256);
  EXPECT_EQ(p.offsets, (std::vector<std::uint64_t>{0, 256, 512}));
}

}  // namespace
}  // namespace onepass::graph::memory_test
