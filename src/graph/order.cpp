#include "graph/order.h"

#include <algorithm>

#include "core/bit_matrix.h"

namespace onepass::graph {
namespace {

// Above this many launches their ancestors are not kept, and no edges are added.
constexpr std::size_t max_paced_launches = 8192;

bool fills(const DeviceInfo& device, const RecordedLaunch& l) {
  const auto& grid = l.launch.grid;
  return std::uint64_t{grid[0]} * grid[1] * grid[2] >= device.compute_units;
}

// By the arithmetic per byte of one of the launches.
bool has_many_rows(const Recording& recording) {
  return std::any_of(
      recording.launches.begin(), recording.launches.end(),
      [](const RecordedLaunch& l) { return l.launch.flops / 64 > l.launch.bytes_moved; });
}

// Adds an edge between two launches in a row of which one fills the device.
Order paced(const Recording& recording, const Dependencies& dependencies,
            const DeviceInfo& device) {
  const auto n = static_cast<std::uint32_t>(recording.launches.size());
  Order order;
  order.kind = OrderKind::edges;
  order.edge_offsets.reserve(n + 1);
  order.edge_offsets.push_back(0);
  BitMatrix ancestors(n);
  const auto add_ancestor = [&](std::uint32_t v, std::uint32_t p) {
    for (std::size_t w = 0; w < ancestors.words(); ++w) ancestors.row(v)[w] |= ancestors.row(p)[w];
    set_bit(ancestors.row(v), p);
  };
  std::vector<Edge> into;
  for (std::uint32_t v = 0; v < n; ++v) {
    into.clear();
    for (const std::uint32_t p : dependencies.of(v)) {
      into.push_back({p});
      add_ancestor(v, p);
    }
    const std::uint32_t before = v - 1;
    if (v > 0 && !is_empty(recording.launches[v]) && !is_empty(recording.launches[before]) &&
        !ancestors.test(v, before) &&
        (fills(device, recording.launches[v]) || fills(device, recording.launches[before]))) {
      add_ancestor(v, before);
      std::erase_if(into, [&](const Edge& e) { return ancestors.test(before, e.from); });
      into.push_back({before, false, true});
    }
    order.edges.insert(order.edges.end(), into.begin(), into.end());
    order.edge_offsets.push_back(static_cast<std::uint32_t>(order.edges.size()));
  }
  return order;
}

// Early reads of a launch, and what launches before it write.
class EarlyReads {
 public:
  explicit EarlyReads(const Recording& recording) : recording_(recording) {
    for (std::uint32_t i = 0; i < recording.launches.size(); ++i) {
      for (const PhysicalRange& r : recording.ranges_of(i)) {
        if (r.early) regions_.push_back(r.region);
      }
    }
    std::sort(regions_.begin(), regions_.end());
    regions_.erase(std::unique(regions_.begin(), regions_.end()), regions_.end());
    for (std::uint32_t i = 0; i < recording.launches.size(); ++i) {
      for (const PhysicalRange& r : recording.ranges_of(i)) {
        if (r.write && std::binary_search(regions_.begin(), regions_.end(), r.region)) {
          writes_.push_back({r, i});
        }
      }
    }
  }

  bool are_written_before(std::uint32_t launch) const {
    if (writes_.empty()) return false;
    for (const PhysicalRange& read : recording_.ranges_of(launch)) {
      if (!read.early) continue;
      for (const Write& w : writes_) {
        if (w.launch < launch && w.range.region == read.region && w.range.lo < read.hi &&
            read.lo < w.range.hi) {
          return true;
        }
      }
    }
    return false;
  }

 private:
  struct Write {
    PhysicalRange range;
    std::uint32_t launch;
  };
  const Recording& recording_;
  std::vector<std::uint64_t> regions_;
  std::vector<Write> writes_;
};

void weaken(const Recording& recording, Order& order) {
  const EarlyReads early(recording);
  for (std::uint32_t v = 0; v < recording.launches.size(); ++v) {
    if (order.edge_offsets[v] == order.edge_offsets[v + 1]) continue;
    Edge& nearest = order.edges[order.edge_offsets[v + 1] - 1];
    nearest.programmatic = waits_first(recording.launches[v]) &&
                           waits_first(recording.launches[nearest.from]) &&
                           !early.are_written_before(v);
  }
}

}  // namespace

Order order_by_levels(const Recording& recording) {
  Order order;
  order.kind = OrderKind::levels;
  for (std::uint32_t i = 0; i < recording.launches.size(); ++i) {
    if (i == 0 || recording.launches[i].level != recording.launches[i - 1].level) {
      order.level_offsets.push_back(i);
    }
  }
  if (!recording.launches.empty()) {
    order.level_offsets.push_back(static_cast<std::uint32_t>(recording.launches.size()));
  }
  return order;
}

Order order_by_edges(const Dependencies& dependencies) {
  Order order;
  order.kind = OrderKind::edges;
  order.edge_offsets = dependencies.offsets;
  order.edges.reserve(dependencies.preds.size());
  for (const std::uint32_t p : dependencies.preds) order.edges.push_back({p});
  return order;
}

Order choose_order(const Recording& recording, const Dependencies& dependencies,
                   const DeviceInfo& device, bool serial) {
  if (serial || device.order == OrderKind::in_order) return {};
  if (device.order == OrderKind::levels) return order_by_levels(recording);
  const bool paces = device.paces_full_launches && recording.launches.size() <= max_paced_launches;
  Order order = paces ? paced(recording, dependencies, device) : order_by_edges(dependencies);
  if (device.programmatic_edges && !recording.timed && !has_many_rows(recording)) {
    weaken(recording, order);
  }
  return order;
}

}  // namespace onepass::graph
