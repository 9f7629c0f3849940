// A recording with its levels and its edges, as tests make, cut and compare them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backend.h"
#include "graph/validate.h"

namespace onepass::testing {

struct OrderedRecording : Recording {
  std::vector<std::uint32_t> level_offsets;
  // Predecessors of launch i: preds[pred_offsets[i] .. pred_offsets[i + 1]). Empty pred_offsets:
  // only the levels are known.
  std::vector<std::uint32_t> pred_offsets, preds;
  bool serial = false;  // each launch waits for the one before

  OrderedRecording() = default;
  // As a backend got it.
  OrderedRecording(const Recording& recording, const Order& order) : Recording(recording) {
    for (std::uint32_t i = 0; i < launches.size(); ++i) {
      if (i == 0 || launches[i].level != launches[i - 1].level) level_offsets.push_back(i);
    }
    if (!launches.empty()) level_offsets.push_back(static_cast<std::uint32_t>(launches.size()));
    serial = order.kind == OrderKind::in_order;
    if (order.kind != OrderKind::edges) return;
    pred_offsets = order.edge_offsets;
    for (const Edge& e : order.edges) preds.push_back(e.from);
  }

  void set_preds(const std::vector<std::vector<std::uint32_t>>& lists) {
    pred_offsets.assign(1, 0);
    preds.clear();
    for (const auto& list : lists) {
      preds.insert(preds.end(), list.begin(), list.end());
      pred_offsets.push_back(static_cast<std::uint32_t>(preds.size()));
    }
  }
  // Levels must not decrease along the list.
  void set_levels(const std::vector<std::uint32_t>& level) {
    level_offsets.assign(1, 0);
    for (std::uint32_t i = 0; i < level.size(); ++i) {
      launches[i].level = level[i];
      while (level_offsets.size() <= level[i]) level_offsets.push_back(i);
    }
    level_offsets.push_back(static_cast<std::uint32_t>(level.size()));
  }

  std::uint32_t n_levels() const noexcept {
    return level_offsets.empty() ? 0 : static_cast<std::uint32_t>(level_offsets.size() - 1);
  }
  OrderKind kind() const noexcept {
    return serial                 ? OrderKind::in_order
           : pred_offsets.empty() ? OrderKind::levels
                                  : OrderKind::edges;
  }
  Order order(OrderKind kind) const {
    Order o;
    o.kind = kind;
    if (kind == OrderKind::levels) o.level_offsets = level_offsets;
    if (kind == OrderKind::edges) {
      o.edge_offsets = pred_offsets;
      for (const std::uint32_t p : preds) o.edges.push_back({p});
    }
    return o;
  }
  Order order() const { return order(kind()); }
};

inline Result<std::unique_ptr<Recorded>> record(Backend& backend, const OrderedRecording& r) {
  return backend.record(r, r.order());
}

inline std::vector<graph::Violation> find_violations(const OrderedRecording& r, OrderKind kind,
                                                     std::size_t limit = 1) {
  return graph::find_violations(r, r.order(kind), limit);
}
inline Status validate(const OrderedRecording& r, OrderKind kind) {
  return graph::validate(r, r.order(kind));
}
inline std::string describe(const OrderedRecording& r, const graph::Violation& v,
                            OrderKind kind = OrderKind::edges) {
  return graph::describe(r, r.order(kind), v);
}

}  // namespace onepass::testing
