// The arena that placement by levels alone would need: the yardstick for placement along the DAG.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/hazards.h"
#include "program_builder.h"

namespace onepass::test {

// Per scratch item the nodes that touch it.
inline std::vector<std::vector<std::uint32_t>> touches_of(const ProgramBuilder& builder) {
  const graph::Program program = builder.program();
  std::vector<std::vector<std::uint32_t>> touches;
  for (const graph::ScratchItem& item : builder.items()) {
    auto& nodes = touches.emplace_back();
    for (std::uint32_t node = 0; node < program.size(); ++node) {
      bool touched = program.kinds[node] == graph::NodeKind::opaque;
      for (const graph::Range& r : program.ranges_of(node)) {
        touched = touched || (r.region == item.region && r.lo < r.hi);
      }
      if (touched) nodes.push_back(node);
    }
  }
  return touches;
}

// The baseline: items share bytes if the last level of one lies before the first of the other.
// Best fit in two orders, the smaller arena.
inline std::uint64_t level_aware_arena(const ProgramBuilder& builder, std::uint64_t alignment) {
  const graph::Dag dag = dependencies_of(builder.program());
  const auto touches = touches_of(builder);
  struct Item {
    std::uint64_t bytes;
    std::uint32_t first, last;
    std::uint64_t lo;
  };
  std::vector<Item> items;
  for (std::size_t i = 0; i < touches.size(); ++i) {
    if (touches[i].empty()) continue;
    const std::uint64_t bytes = (builder.items()[i].bytes + alignment - 1) / alignment * alignment;
    Item item{bytes, UINT32_MAX, 0, 0};
    for (const std::uint32_t node : touches[i]) {
      item.first = std::min(item.first, dag.level[node]);
      item.last = std::max(item.last, dag.level[node]);
    }
    items.push_back(item);
  }
  const auto place = [&] {
    std::uint64_t arena = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;
      for (std::size_t k = 0; k < i; ++k) {
        const bool apart = items[k].last < items[i].first || items[i].last < items[k].first;
        if (!apart) taken.emplace_back(items[k].lo, items[k].lo + items[k].bytes);
      }
      std::sort(taken.begin(), taken.end());
      std::uint64_t end = 0, best = UINT64_MAX, hole = UINT64_MAX;
      for (const auto& [lo, hi] : taken) {
        if (lo > end && lo - end >= items[i].bytes && lo - end < hole) {
          best = end;
          hole = lo - end;
        }
        end = std::max(end, hi);
      }
      items[i].lo = hole == UINT64_MAX ? end : best;
      arena = std::max(arena, items[i].lo + items[i].bytes);
    }
    return arena;
  };
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.first < b.first; });
  const std::uint64_t by_level = place();
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.bytes > b.bytes; });
  return std::min(by_level, place());
}

}  // namespace onepass::test
