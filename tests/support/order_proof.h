// What an order has to keep, found byte by byte and by plain reachability, and every edge and level
// boundary of an order taken away in turn: what the others do not imply must be reported.
#pragma once

#include <cstdint>
#include <cstdio>
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
  bool at_access(std::uint32_t launch, std::uint32_t before) const {
    return at_access_.test(launch, before);
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

// Nothing lost; only what is read early; more than that.
enum class Lost : std::uint8_t { nothing, early, bytes };

inline Lost lost_by(const Recording& r, const Order& order, const std::vector<Demand>& demands) {
  const Reached reached(r, order);
  Lost lost = Lost::nothing;
  for (const Demand& d : demands) {
    if (reached.keeps(d)) continue;
    if (!d.early || !reached.at_access(d.second, d.first)) return Lost::bytes;
    lost = Lost::early;
  }
  return lost;
}

// An order that may go. Edges: because others keep the two launches in order, or because it was
// added for speed between launches that share nothing. Boundaries, by the last launch in front.
struct Implied {
  std::uint32_t first, second;
  const char* why;
};

struct Removals {
  std::uint64_t orders = 0, programmatic = 0, added = 0;  // as they were chosen
  std::uint64_t edges = 0, boundaries = 0, weakened = 0;  // taken away, one at a time
  std::uint64_t reported = 0;
  std::uint64_t early = 0;  // of these: only a read before the wait is too early
  std::vector<Implied> implied;

  std::uint64_t total() const { return edges + boundaries + weakened; }
  Removals& operator+=(const Removals& o) {
    orders += o.orders;
    programmatic += o.programmatic;
    added += o.added;
    edges += o.edges;
    boundaries += o.boundaries;
    weakened += o.weakened;
    reported += o.reported;
    early += o.early;
    implied.insert(implied.end(), o.implied.begin(), o.implied.end());
    return *this;
  }
};

inline Order without_edge(const Order& order, std::uint32_t v, std::uint32_t edge) {
  Order cut = order;
  cut.edges.erase(cut.edges.begin() + edge);
  for (std::size_t k = v + std::size_t{1}; k < cut.edge_offsets.size(); ++k) {
    --cut.edge_offsets[k];
  }
  return cut;
}

// Takes away one order after another and compares the validator with lost_by.
class RemovalCheck {
 public:
  RemovalCheck(const Recording& r, const Order& order, Removals& totals)
      : r_(r), order_(order), demands_(demands_of(r)), totals_(totals) {}

  // Empty, or what the validator got wrong. The order itself must be found sound.
  std::string run() {
    if (lost_by(r_, order_, demands_) != Lost::nothing) return "the order itself keeps too little";
    if (const Status ok = graph::validate(r_, order_); !ok) return ok.error().to_string();
    ++totals_.orders;
    std::string text;
    if (order_.kind == OrderKind::edges) {
      for (std::uint32_t v = 0; v < r_.launches.size() && text.empty(); ++v) {
        for (std::uint32_t e = order_.edge_offsets[v];
             e < order_.edge_offsets[v + 1] && text.empty(); ++e) {
          text = remove_edge(v, e);
        }
      }
    }
    for (std::uint32_t level = 0; level + 1 < order_.n_levels() && text.empty(); ++level) {
      text = merge_level(level);
    }
    return text;
  }

 private:
  std::string judge(const Recording& r, const Order& cut, Lost lost, const std::string& what) {
    const std::vector<graph::Violation> found = graph::find_violations(r, cut);
    totals_.reported += lost != Lost::nothing ? 1 : 0;
    totals_.early += lost == Lost::early ? 1 : 0;
    if (found.empty() && lost != Lost::nothing) return what + " is not reported";
    if (!found.empty() && lost == Lost::nothing) return what + " is implied and reported";
    if (lost == Lost::early && !found[0].early) return what + " is not reported as an early read";
    return {};
  }

  std::string remove_edge(std::uint32_t v, std::uint32_t e) {
    const Edge& edge = order_.edges[e];
    const std::string pair = std::to_string(edge.from) + " -> " + std::to_string(v);
    totals_.programmatic += edge.programmatic ? 1 : 0;
    totals_.added += edge.added ? 1 : 0;
    ++totals_.edges;
    Order cut = without_edge(order_, v, e);
    const Lost lost = lost_by(r_, cut, demands_);
    if (lost == Lost::nothing) {
      const bool others = Reached(r_, cut).at_access(v, edge.from);
      if (!others && !edge.added) return "nothing needs edge " + pair;
      totals_.implied.push_back({edge.from, v, others ? "other edges" : "added for speed"});
    }
    std::string text = judge(r_, cut, lost, "removed edge " + pair);
    if (!text.empty() || edge.programmatic) return text;
    cut = order_;
    cut.edges[e].programmatic = true;
    ++totals_.weakened;
    return judge(r_, cut, lost_by(r_, cut, demands_), "weakened edge " + pair);
  }

  std::string merge_level(std::uint32_t level) {
    Order cut = order_;
    const std::uint32_t second = cut.level_offsets[level + 1];
    cut.level_offsets.erase(cut.level_offsets.begin() + level + 1);
    Recording merged = r_;
    for (RecordedLaunch& l : merged.launches) l.level -= l.level > level ? 1u : 0u;
    ++totals_.boundaries;
    const Lost lost = lost_by(r_, cut, demands_);
    if (lost == Lost::nothing) totals_.implied.push_back({second - 1, second, "other levels"});
    return judge(merged, cut, lost, "merged level " + std::to_string(level));
  }

  const Recording& r_;
  const Order& order_;
  const std::vector<Demand> demands_;
  Removals& totals_;
};

inline std::string check_removals(const Recording& r, const Order& order, Removals& totals) {
  return RemovalCheck(r, order, totals).run();
}

inline void print(const char* name, const Removals& t) {
  std::printf(
      "%s: %llu orders with %llu programmatic and %llu added edges; taken away: %llu edges, "
      "%llu boundaries, %llu made programmatic; %llu reported, %llu of them early reads; "
      "%zu implied\n",
      name, static_cast<unsigned long long>(t.orders),
      static_cast<unsigned long long>(t.programmatic), static_cast<unsigned long long>(t.added),
      static_cast<unsigned long long>(t.edges), static_cast<unsigned long long>(t.boundaries),
      static_cast<unsigned long long>(t.weakened), static_cast<unsigned long long>(t.reported),
      static_cast<unsigned long long>(t.early), t.implied.size());
}

}  // namespace onepass::test
