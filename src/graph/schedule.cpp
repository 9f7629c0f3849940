#include "graph/schedule.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "graph/hazards.h"

namespace onepass::graph {

std::vector<std::uint32_t> level_order(const Program& program, const Dag& dag) {
  const std::uint32_t n = program.size();
  // Two slots per level: the fences in front of it, then its dispatches.
  const auto slot = [&](std::uint32_t node) {
    return std::size_t{dag.level[node]} * 2 + (program.kinds[node] == NodeKind::fence ? 0 : 1);
  };
  std::vector<std::uint32_t> next(std::size_t{dag.n_levels} * 2 + 2, 0);
  for (std::uint32_t node = 0; node < n; ++node) ++next[slot(node) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::uint32_t> order(n);
  for (std::uint32_t node = 0; node < n; ++node) order[next[slot(node)]++] = node;
  return order;
}

std::vector<std::uint32_t> barrier_positions(const Program& program,
                                             std::span<const std::uint32_t> order) {
  std::vector<std::uint32_t> positions;
  GroupTracker group;
  bool fence_pending = false;
  for (std::uint32_t position = 0; position < order.size(); ++position) {
    const std::uint32_t node = order[position];
    const NodeKind kind = program.kinds[node];
    if (kind == NodeKind::fence) {
      fence_pending = true;
      continue;
    }
    const auto ranges = program.ranges_of(node);
    const bool closes = fence_pending || kind == NodeKind::opaque || group.conflicts(ranges);
    if (closes && !group.empty()) {
      positions.push_back(position);
      group.reset();
    }
    if (kind == NodeKind::opaque) {
      group.add_opaque();
    } else {
      group.add(ranges);
    }
    fence_pending = false;
  }
  return positions;
}

Groups groups_of(const Program& program, std::span<const std::uint32_t> order) {
  const std::vector<std::uint32_t> barriers = barrier_positions(program, order);
  Groups groups;
  groups.level.resize(program.size());
  std::size_t left = barriers.size();
  auto following = static_cast<std::uint32_t>(barriers.size()) + 1;  // level of the next dispatch
  for (std::size_t position = order.size(); position-- > 0;) {
    const std::uint32_t node = order[position];
    if (program.kinds[node] != NodeKind::fence) {
      groups.count = static_cast<std::uint32_t>(barriers.size()) + 1;
      following = static_cast<std::uint32_t>(left);
      if (left > 0 && barriers[left - 1] == position) --left;
    }
    groups.level[node] = following;
  }
  return groups;
}

std::uint32_t moved_count(const Program& program, std::span<const std::uint32_t> order) {
  std::uint32_t moved = 0, recorded = 0;
  for (const std::uint32_t node : order) {
    if (program.kinds[node] == NodeKind::fence) continue;
    while (recorded < program.size() && program.kinds[recorded] == NodeKind::fence) ++recorded;
    if (recorded++ != node) ++moved;
  }
  return moved;
}

}  // namespace onepass::graph
