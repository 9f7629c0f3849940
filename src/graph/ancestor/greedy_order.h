// The ancestor's order: a greedy window over the recorded list.
#pragma once

#include <span>
#include <vector>

#include "graph/program.h"

namespace onepass::graph {

// A greedy lookahead of `window` nodes: nodes that conflict neither with the open group nor with a
// node skipped on the way are pulled in front of the node that would close the group. The scan
// stops at a node that may not be moved (movable[i] == 0) and at fences and opaque nodes, which
// keep their place. Zero-length windows give the recorded order.
std::vector<std::uint32_t> greedy_order(const Program& program,
                                        std::span<const std::uint8_t> movable,
                                        std::uint32_t window = 64);

}  // namespace onepass::graph
