#include "property/mutants.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/device_state.h"
#include "graph/plan_state.h"

namespace onepass::property {
namespace {

// Region of a dispatch's operand: the reference's memory, so imports of one block overlap.
Touch touch_of(const GraphSpec& graph, const Place& p, Access a) {
  const BufferSpec& b = graph.buffers[p.buffer];
  const auto lo = static_cast<std::int32_t>(b.base + p.offset);
  return {b.memory,
          lo,
          lo + static_cast<std::int32_t>(p.bytes),
          static_cast<std::int32_t>(b.base),
          reads(a),
          writes(a)};
}

graph::Program program_of(const Touches& touches, std::uint32_t n_regions,
                          std::vector<graph::NodeKind>& kinds, std::vector<std::uint32_t>& offsets,
                          std::vector<graph::Range>& ranges) {
  kinds.assign(touches.size(), graph::NodeKind::dispatch);
  offsets.assign(1, 0);
  for (const auto& list : touches) {
    for (const Touch& t : list) {
      const auto lo = static_cast<std::uint64_t>(t.lo), hi = static_cast<std::uint64_t>(t.hi);
      if (t.read) ranges.push_back({lo, hi, t.region, false});
      if (t.write) ranges.push_back({lo, hi, t.region, true});
    }
    offsets.push_back(static_cast<std::uint32_t>(ranges.size()));
  }
  return {kinds, offsets, ranges, n_regions};
}

OrderedRecording in_program_order(const OrderedRecording& r) {
  std::vector<std::uint32_t> order(r.launches.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return r.launches[a].index < r.launches[b].index;
  });
  OrderedRecording out;
  out.range_offsets.push_back(0);
  for (const std::uint32_t i : order) {
    out.launches.push_back(r.launches[i]);
    out.ranges.insert(out.ranges.end(), r.ranges.begin() + r.range_offsets[i],
                      r.ranges.begin() + r.range_offsets[i + 1]);
    out.range_offsets.push_back(static_cast<std::uint32_t>(out.ranges.size()));
  }
  out.keep_alive = r.keep_alive;
  return out;
}

bool conflict(const PhysicalRange& a, const PhysicalRange& b) {
  return a.region == b.region && (a.write || b.write) && a.lo < b.hi && b.lo < a.hi;
}

}  // namespace

bool Rule::conflict(const Touch& a, const Touch& b) const {
  if (a.region != b.region) return false;
  const std::int32_t a_lo = ignore_offset ? a.base : a.lo, a_hi = a_lo + a.hi - a.lo;
  const std::int32_t b_lo = ignore_offset ? b.base : b.lo, b_hi = b_lo + b.hi - b.lo;
  if (a_lo == a_hi || b_lo == b_hi) return false;
  const std::int32_t slack = adjacent_conflicts ? 1 : one_byte_is_none ? -1 : 0;
  if (a_lo >= b_hi + slack || b_lo >= a_hi + slack) return false;
  const bool raw = a.write && b.read;
  const bool war = a.read && b.write && !skip_war;
  const bool waw = a.write && b.write && !skip_waw;
  return raw || war || waw;
}

BitRows find_conflicts(const Touches& touches, const Rule& rule) {
  BitRows rows(touches.size());
  for (std::size_t j = 0; j < touches.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      rows[j][i] = std::any_of(touches[i].begin(), touches[i].end(), [&](const Touch& a) {
        return std::any_of(touches[j].begin(), touches[j].end(),
                           [&](const Touch& b) { return rule.conflict(a, b); });
      });
    }
  }
  return rows;
}

Schedule in_groups(const BitRows& conflicts, const std::vector<std::uint32_t>& order) {
  Schedule s;
  s.order = order;
  std::bitset<256> group;
  std::uint32_t level = 0;
  for (const std::uint32_t node : order) {
    bool needs_barrier = false;
    for (std::size_t u = 0; u < conflicts.size(); ++u) {
      needs_barrier |= group[u] && (u < node ? conflicts[node][u] : conflicts[u][node]);
    }
    if (needs_barrier) {
      ++level;
      group.reset();
    }
    group.set(node);
    s.level.push_back(level);
  }
  return s;
}

Schedule in_groups(const BitRows& conflicts, std::uint32_t reset_at) {
  BitRows seen = conflicts;
  for (std::size_t j = reset_at; j < seen.size(); ++j) {
    for (std::size_t i = 0; i < reset_at; ++i) seen[j][i] = false;
  }
  std::vector<std::uint32_t> order(conflicts.size());
  std::iota(order.begin(), order.end(), 0u);
  return in_groups(seen, order);
}

Schedule by_edges(const BitRows& conflicts) {
  Schedule s;
  s.model = OrderKind::edges;
  const std::size_t n = conflicts.size();
  s.preds.resize(n);
  BitRows reach(n);
  std::vector<std::uint32_t> level(n, 0);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j; i-- > 0;) {
      if (!conflicts[j][i]) continue;
      level[j] = std::max(level[j], level[i] + 1);
      if (reach[j][i]) continue;
      s.preds[j][i] = true;
      reach[j] |= reach[i];
      reach[j][i] = true;
    }
  }
  s.order.resize(n);
  std::iota(s.order.begin(), s.order.end(), 0u);
  std::stable_sort(s.order.begin(), s.order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return level[a] < level[b]; });
  for (const std::uint32_t node : s.order) s.level.push_back(level[node]);
  return s;
}

std::vector<std::uint32_t> greedy(const BitRows& conflicts, bool keep_skipped) {
  const auto n = static_cast<std::uint32_t>(conflicts.size());
  std::vector<std::uint32_t> order;
  std::bitset<256> placed, group, skipped;
  const auto clashes = [&](std::uint32_t node, const std::bitset<256>& set) {
    for (std::uint32_t u = 0; u < n; ++u) {
      if (set[u] && u != node && conflicts[std::max(u, node)][std::min(u, node)]) return true;
    }
    return false;
  };
  for (std::uint32_t node = 0; node < n; ++node) {
    if (placed[node]) continue;
    if (clashes(node, group)) {
      skipped.reset();
      skipped.set(node);
      for (std::uint32_t later = node + 1; later < std::min(n, node + 64); ++later) {
        if (placed[later]) continue;
        if (clashes(later, group) || (keep_skipped && clashes(later, skipped))) {
          skipped.set(later);
          continue;
        }
        group.set(later);
        placed.set(later);
        order.push_back(later);
      }
      group.reset();
    }
    group.set(node);
    placed.set(node);
    order.push_back(node);
  }
  return order;
}

bool breaks(const Schedule& s, const BitRows& truth) {
  const std::size_t n = truth.size();
  if (s.model == OrderKind::edges) {
    const BitRows reach = test::transitive_closure(s.preds);
    for (std::size_t j = 0; j < n; ++j) {
      if ((truth[j] & ~reach[j]).any()) return true;
    }
    return false;
  }
  std::vector<std::uint32_t> level(n);
  for (std::size_t k = 0; k < n; ++k) level[s.order[k]] = s.level[k];
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      if (truth[j][i] && level[i] >= level[j]) return true;
    }
  }
  return false;
}

bool same_closure(const BitRows& a, const BitRows& b) {
  return test::transitive_closure(a) == test::transitive_closure(b);
}

GraphOptions case_options() { return {.fence_percent = 0, .barrier_percent = 0}; }

std::optional<Case> make_case(Bench& bench, const GraphSpec& graph) {
  bench.load(graph);
  auto plan = bench.record(graph).compile({.fuse = false, .alias_scratch = false});
  if (!plan) return std::nullopt;
  Case c{bench, graph, run_reference(graph), std::move(*plan), {}, {}, {}};
  c.program = in_program_order({c.plan.state().pass->recording, c.plan.state().pass->order});
  for (const OpSpec& op : graph.ops) {
    if (!op.is_dispatch()) continue;
    auto& list = c.touches.emplace_back();
    for (std::uint32_t i = 0; i < op.n; ++i) {
      if (graph.is_immutable(op.places[i])) continue;
      list.push_back(touch_of(graph, op.places[i], op.access[i]));
    }
  }
  if (c.touches.size() != c.program.launches.size()) return std::nullopt;
  std::vector<graph::NodeKind> kinds;
  std::vector<std::uint32_t> offsets;
  std::vector<graph::Range> ranges;
  c.truth = test::bitmap_conflicts(program_of(c.touches, graph.n_memories, kinds, offsets, ranges));
  return c;
}

OrderedRecording make_recording(const OrderedRecording& program, const Schedule& s) {
  OrderedRecording r;
  const std::size_t n = s.order.size();
  r.keep_alive = program.keep_alive;
  r.launches.reserve(n);
  r.range_offsets.push_back(0);
  std::vector<std::uint32_t> position(n);
  for (std::uint32_t k = 0; k < n; ++k) {
    const std::uint32_t node = s.order[k];
    position[node] = k;
    r.launches.push_back(program.launches[node]);
    r.launches.back().index = node;
    r.launches.back().level = s.level[k];
    if (k == 0 || s.level[k] != s.level[k - 1]) r.level_offsets.push_back(k);
    r.ranges.insert(r.ranges.end(), program.ranges.begin() + program.range_offsets[node],
                    program.ranges.begin() + program.range_offsets[node + 1]);
    r.range_offsets.push_back(static_cast<std::uint32_t>(r.ranges.size()));
  }
  r.level_offsets.push_back(static_cast<std::uint32_t>(n));
  if (s.model != OrderKind::edges) return r;
  r.pred_offsets.push_back(0);
  for (std::uint32_t k = 0; k < n; ++k) {
    for (std::uint32_t u = 0; u < n; ++u) {
      if (s.preds[s.order[k]][u]) r.preds.push_back(position[u]);
    }
    r.pred_offsets.push_back(static_cast<std::uint32_t>(r.preds.size()));
  }
  return r;
}

bool has_needless_edge(const OrderedRecording& r) {
  for (std::uint32_t v = 0; v < r.launches.size(); ++v) {
    for (std::uint32_t e = r.pred_offsets[v]; e < r.pred_offsets[v + 1]; ++e) {
      const std::uint32_t u = r.preds[e];
      if (r.launches[u].is_fence() || r.launches[v].is_fence()) continue;
      bool needed = false;
      for (std::uint32_t a = r.range_offsets[u]; a < r.range_offsets[u + 1]; ++a) {
        for (std::uint32_t b = r.range_offsets[v]; b < r.range_offsets[v + 1]; ++b) {
          needed |= conflict(r.ranges[a], r.ranges[b]);
        }
      }
      if (!needed) return true;
    }
  }
  return false;
}

bool shuffling_shows(Case& c, const OrderedRecording& recording, std::uint64_t seed) {
  for (std::uint64_t run = 0; run < 5; ++run) {
    ShuffleBackend shuffle(
        {.order = run == 0 ? ShuffleOrder::reverse : ShuffleOrder::random, .seed = seed * 8 + run});
    auto recorded = testing::record(shuffle, recording);
    if (!recorded) return false;
    c.bench.start(RunOrder::forward, 0, run % 2 == 0 ? std::byte{0xa5} : std::byte{0x5a});
    Completion completion;
    if (!shuffle.submit(**recorded, {}, completion)) return false;
    if (!c.bench.agrees(c.expected)) return true;
  }
  return false;
}

namespace {

struct Window {
  std::byte* lo;
  std::byte* hi;
};

// All memory the launches can reach, as disjoint stretches.
std::vector<Window> reachable_memory(const OrderedRecording& r) {
  std::vector<Window> windows;
  for (const RecordedLaunch& l : r.launches) {
    for (std::size_t v = 0; v < l.n_views; ++v) {
      const Allocation& m = l.views[v].memory;
      if (m.host != nullptr) windows.push_back({m.host, m.host + m.bytes});
    }
  }
  std::sort(windows.begin(), windows.end(),
            [](const Window& a, const Window& b) { return a.lo < b.lo; });
  std::vector<Window> merged;
  for (const Window& w : windows) {
    if (merged.empty() || w.lo > merged.back().hi) {
      merged.push_back(w);
    } else {
      merged.back().hi = std::max(merged.back().hi, w.hi);
    }
  }
  return merged;
}

enum : std::uint8_t { undeclared = 0, read_only = 1, writable = 2 };

}  // namespace

bool guard_reports(Case& c, std::uint32_t i, const std::vector<Touch>& declared) {
  const RecordedLaunch& launch = c.program.launches[i];
  const std::vector<Window> windows = reachable_memory(c.program);
  std::vector<std::byte> before, first, second;
  std::vector<std::uint8_t> role;
  for (const Window& w : windows) before.insert(before.end(), w.lo, w.hi);
  role.assign(before.size(), undeclared);

  // An address of each region: of an operand, less its place in the region.
  std::vector<const std::byte*> base(c.graph.n_memories, nullptr);
  const auto mark = [&](const std::byte* at, std::uint8_t as) {
    std::size_t offset = 0;
    for (const Window& w : windows) {
      if (at >= w.lo && at < w.hi) {
        std::uint8_t& r = role[offset + static_cast<std::size_t>(at - w.lo)];
        r = std::max(r, as);
      }
      offset += static_cast<std::size_t>(w.hi - w.lo);
    }
  };
  std::uint32_t dispatch = 0;
  for (const OpSpec& op : c.graph.ops) {
    if (!op.is_dispatch() || dispatch++ != i) continue;
    for (std::uint32_t k = 0; k < op.n; ++k) {
      const BoundView& v = launch.views[k];
      base[c.graph.buffers[op.places[k].buffer].memory] =
          v.host() - c.graph.first_byte(op.places[k]);
      for (std::uint64_t b = 0; c.graph.is_immutable(op.places[k]) && b < v.bytes; ++b) {
        mark(v.host() + b, read_only);
      }
    }
  }
  for (const Touch& t : declared) {
    for (std::int32_t b = t.lo; b < t.hi; ++b) {
      mark(base[t.region] + b, t.write ? writable : read_only);
    }
  }

  // Bytes that are only read change with `flip`, so that a write of the same value shows, too.
  const auto start_value = [&](std::size_t at, std::byte poison, std::byte flip) {
    return role[at] == undeclared ? poison : role[at] == read_only ? before[at] ^ flip : before[at];
  };
  const auto run = [&](std::byte poison, std::byte flip, std::vector<std::byte>& after) {
    std::size_t at = 0;
    for (const Window& w : windows) {
      for (std::byte* p = w.lo; p < w.hi; ++p, ++at) *p = start_value(at, poison, flip);
    }
    OrderedRecording one;
    one.launches.push_back(launch);
    const auto tasks = TaskList::bind(one);
    for (std::uint32_t tile = 0; tasks && tile < tasks->tiles(0); ++tile) tasks->run(0, tile);
    bool changed = false;
    after.clear();
    for (const Window& w : windows) after.insert(after.end(), w.lo, w.hi);
    for (at = 0; at < after.size(); ++at) {
      changed |= role[at] != writable && after[at] != start_value(at, poison, flip);
    }
    return std::pair(changed, c.bench.log().hashes);
  };
  bool reported = false;
  for (const std::byte flip : {std::byte{0}, std::byte{1}, std::byte{2}, std::byte{3}}) {
    const auto [changed_a, log_a] = run(std::byte{0xa5}, flip, first);
    const auto [changed_b, log_b] = run(std::byte{0x5a}, flip, second);
    reported |= changed_a || changed_b || log_a != log_b;
    for (std::size_t at = 0; at < first.size(); ++at) {
      reported |= role[at] == writable && first[at] != second[at];
    }
  }
  std::size_t at = 0;
  for (const Window& w : windows) {
    std::memcpy(w.lo, before.data() + at, static_cast<std::size_t>(w.hi - w.lo));
    at += static_cast<std::size_t>(w.hi - w.lo);
  }
  return reported;
}

bool is_undeclared(const std::vector<Touch>& real, const std::vector<Touch>& declared) {
  for (const Touch& t : real) {
    for (std::int32_t b = t.lo; b < t.hi; ++b) {
      const bool covered = std::any_of(declared.begin(), declared.end(), [&](const Touch& d) {
        return d.region == t.region && d.lo <= b && b < d.hi && (d.write || !t.write);
      });
      if (!covered) return true;
    }
  }
  return false;
}

}  // namespace onepass::property
