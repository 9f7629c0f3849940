// The order by exact level, and any order as groups between barriers.
#pragma once

#include <vector>

#include "graph/program.h"

namespace onepass::graph {

// order[k] = node at position k: by level, stable within. Fences stand between the levels they
// separate.
std::vector<std::uint32_t> level_order(const Program& program, const Dag& dag);

// Barriers needed to run `order` in groups: positions in front of which a barrier stands, always
// positions of dispatches, ascending. Fences are a barrier in front of the dispatch that follows
// them, unless no dispatch stands before them.
std::vector<std::uint32_t> barrier_positions(const Program& program,
                                             std::span<const std::uint32_t> order);

// order as levels: per node, the barriers in front of its group. A fence has the level of the
// dispatch that follows it, or as many as there are.
struct Groups {
  std::vector<std::uint32_t> level;
  std::uint32_t count = 0;
};
Groups groups_of(const Program& program, std::span<const std::uint32_t> order);

// Dispatch positions that hold another dispatch than in recorded order (fences not counted).
std::uint32_t moved_count(const Program& program, std::span<const std::uint32_t> order);

}  // namespace onepass::graph
