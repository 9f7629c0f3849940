// In what order a device runs the launches of a recording. graph::choose_order makes it,
// graph::validate proves it, backends translate it and decide nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "onepass/device.h"

namespace onepass {

// Launch v waits for launch `from`.
//
// Along a full edge v starts when `from` is complete. Along a programmatic edge v starts when every
// block of `from` has allowed it or has ended, and the blocks of v wait inside until `from` is
// complete and its writes are visible. Both rows must say waits_first: every block waits before its
// first dependent access and before it ends. So `from` is complete only after everything it waits
// for is, and when v's wait returns, all that precedes v is complete, however many edges on the way
// were programmatic. What v reads before its wait is ordered after nothing but the launches that
// are complete when v starts: those before a full edge.
struct Edge {
  std::uint32_t from = 0;
  bool programmatic = false;
  bool added = false;  // for speed: the dependencies have no such edge

  friend bool operator==(const Edge&, const Edge&) = default;
};

struct Order {
  OrderKind kind = OrderKind::in_order;
  // Kind levels: first launch of each level, and the count. All of a level before all of the next.
  std::vector<std::uint32_t> level_offsets;
  // Kind edges: edges into launch v are edges[edge_offsets[v] .. edge_offsets[v + 1]), by `from`,
  // which is less than v.
  std::vector<std::uint32_t> edge_offsets;
  std::vector<Edge> edges;

  std::uint32_t n_levels() const noexcept {
    return level_offsets.empty() ? 0 : static_cast<std::uint32_t>(level_offsets.size() - 1);
  }
  std::span<const Edge> edges_into(std::uint32_t v) const noexcept {
    return std::span(edges).subspan(edge_offsets[v], edge_offsets[v + 1] - edge_offsets[v]);
  }
};

}  // namespace onepass
