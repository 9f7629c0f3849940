// What an order has to keep, found byte by byte and by plain reachability, and every edge and level
// boundary of an order taken away in turn: what the others do not imply must be reported.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/bit_matrix.h"
#include "graph/order.h"
#include "graph/validate.h"

namespace onepass::test {

// Two launches whose order somebody can see.
struct Demand {
  std::uint32_t first, second;
  bool early;  // the second reads before it waits
};

inline std::vector<Demand> demands_of(const Recording& r) {
  std::vector<Demand> demands;
  const auto n = static_cast<std::uint32_t>(r.launches.size());
  for (std::uint32_t v = 0; v < n; ++v) {
    bool fenced = false;  // a fence stands between u and v
    for (std::uint32_t u = v; u-- > 0;) {
      if (r.launches[u].is_fence() || r.launches[v].is_fence()) {
        fenced |= r.launches[u].is_fence();
        continue;
      }
      bool conflict = fenced, early = false;
      for (const PhysicalRange& a : r.ranges_of(u)) {
        for (const PhysicalRange& b : r.ranges_of(v)) {
          if (a.region != b.region || a.lo >= b.hi || b.lo >= a.hi) continue;
          conflict |= a.write || b.write;
          early |= a.write && b.early;
        }
      }
      if (conflict) demands.push_back({u, v, early});
    }
  }
  return demands;
}

// Which launches are complete when another starts, and when it touches what it does not read early.
class Reached {
 public:
  Reached(const Recording& r, const Order& order)
      : at_start_(r.launches.size()), at_access_(r.launches.size()) {
    const auto n = static_cast<std::uint32_t>(r.launches.size());
    std::uint32_t level = 0;
    for (std::uint32_t v = 0; v < n; ++v) {
      if (order.kind == OrderKind::in_order && v > 0) follow(v, v - 1, false);
      if (order.kind == OrderKind::levels) {
        while (order.level_offsets[level + 1] <= v) ++level;
        for (std::uint32_t u = 0; u < order.level_offsets[level]; ++u) follow(v, u, false);
      }
      if (order.kind != OrderKind::edges) continue;
      for (const Edge& e : order.edges_into(v)) {
        const bool orders =
            !e.programmatic || (waits_first(r.launches[v]) && waits_first(r.launches[e.from]));
        if (orders) follow(v, e.from, e.programmatic);
      }
    }
  }
  bool keeps(const Demand& d) const {
    return (d.early ? at_start_ : at_access_).test(d.second, d.first);
  }

 private:
  void follow(std::uint32_t v, std::uint32_t u, bool programmatic) {
    const auto include = [](std::span<std::uint64_t> to, std::span<const std::uint64_t> from) {
      for (std::size_t w = 0; w < to.size(); ++w) to[w] |= from[w];
    };
    include(at_access_.row(v), at_access_.row(u));
    set_bit(at_access_.row(v), u);
    include(at_start_.row(v), (programmatic ? at_start_ : at_access_).row(u));
    if (!programmatic) set_bit(at_start_.row(v), u);
  }

  BitMatrix at_start_, at_access_;
};

inline bool keeps_all(const Recording& r, const Order& order, const std::vector<Demand>& demands) {
  const Reached reached(r, order);
  return std::all_of(demands.begin(), demands.end(),
                     [&](const Demand& d) { return reached.keeps(d); });
}

struct Removals {
  std::uint64_t orders = 0, edges = 0, boundaries = 0, weakened = 0;
  std::uint64_t reported = 0, implied = 0;
  std::uint64_t programmatic = 0, added = 0;  // edges of the orders as they were chosen

  Removals& operator+=(const Removals& o) {
    orders += o.orders;
    edges += o.edges;
    boundaries += o.boundaries;
    weakened += o.weakened;
    reported += o.reported;
    implied += o.implied;
    programmatic += o.programmatic;
    added += o.added;
    return *this;
  }
};

// Empty, or what the validator got wrong. The order itself must be found sound.
inline std::string check_removals(const Recording& r, const Order& order, Removals& totals) {
  const std::vector<Demand> demands = demands_of(r);
  if (!keeps_all(r, order, demands)) return "the order itself keeps too little";
  if (const Status ok = graph::validate(r, order); !ok) return ok.error().to_string();
  ++totals.orders;
  const auto judge = [&](const Order& cut, const std::string& what) -> std::string {
    const bool needed = !keeps_all(r, cut, demands);
    ++(needed ? totals.reported : totals.implied);
    if (graph::find_violations(r, cut).empty() == !needed) return {};
    return what + (needed ? " is not reported" : " is implied and reported");
  };
  for (std::uint32_t v = 0; order.kind == OrderKind::edges && v < r.launches.size(); ++v) {
    for (std::uint32_t e = order.edge_offsets[v]; e < order.edge_offsets[v + 1]; ++e) {
      const Edge& edge = order.edges[e];
      totals.programmatic += edge.programmatic ? 1 : 0;
      totals.added += edge.added ? 1 : 0;
      const std::string pair = std::to_string(edge.from) + " -> " + std::to_string(v);
      Order cut = order;
      cut.edges.erase(cut.edges.begin() + e);
      for (std::size_t k = v + std::size_t{1}; k < cut.edge_offsets.size(); ++k) {
        --cut.edge_offsets[k];
      }
      ++totals.edges;
      if (std::string text = judge(cut, "removed edge " + pair); !text.empty()) return text;
      if (edge.programmatic) continue;
      cut = order;
      cut.edges[e].programmatic = true;
      ++totals.weakened;
      if (std::string text = judge(cut, "weakened edge " + pair); !text.empty()) return text;
    }
  }
  for (std::uint32_t level = 0; level + 1 < order.n_levels(); ++level) {
    Order cut = order;
    cut.level_offsets.erase(cut.level_offsets.begin() + level + 1);
    Recording merged = r;
    for (RecordedLaunch& l : merged.launches) l.level -= l.level > level ? 1u : 0u;
    const bool needed = !keeps_all(r, cut, demands);
    ++(needed ? totals.reported : totals.implied);
    ++totals.boundaries;
    if (graph::find_violations(merged, cut).empty() == needed) {
      return "merged level " + std::to_string(level) +
             (needed ? " is not reported" : " is reported");
    }
  }
  return {};
}

}  // namespace onepass::test
