#include "graph/ancestor/greedy_order.h"

#include "graph/hazards.h"

namespace onepass::graph {

std::vector<std::uint32_t> greedy_order(const Program& program,
                                        std::span<const std::uint8_t> movable,
                                        std::uint32_t window) {
  const std::uint32_t n = program.size();
  const auto stops_scan = [&](std::uint32_t node) {
    return program.kinds[node] != NodeKind::dispatch ||
           (node < movable.size() && movable[node] == 0);
  };
  std::vector<std::uint32_t> order;
  order.reserve(n);
  std::vector<std::uint8_t> placed(n, 0);
  GroupTracker group, skipped;
  for (std::uint32_t node = 0; node < n; ++node) {
    if (placed[node] != 0) continue;
    const auto ranges = program.ranges_of(node);
    if (program.kinds[node] != NodeKind::dispatch) {
      group.reset();
      order.push_back(node);
      continue;
    }
    if (group.conflicts(ranges)) {
      skipped.reset();
      skipped.add(ranges);
      const std::uint64_t end = std::min(std::uint64_t{node} + window, std::uint64_t{n});
      for (std::uint32_t later = node + 1; later < end; ++later) {
        if (placed[later] != 0) continue;
        if (stops_scan(later)) break;
        const auto later_ranges = program.ranges_of(later);
        if (group.conflicts(later_ranges) || skipped.conflicts(later_ranges)) {
          skipped.add(later_ranges);
          continue;
        }
        group.add(later_ranges);
        order.push_back(later);
        placed[later] = 1;
      }
      group.reset();
    }
    group.add(ranges);
    order.push_back(node);
  }
  return order;
}

}  // namespace onepass::graph
