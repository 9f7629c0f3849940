#include "graph/hazards.h"

#include <algorithm>
#include <utility>

namespace onepass::graph {
namespace {

constexpr std::uint32_t none = UINT32_MAX;

// Bytes with one history: the last write and the reads since. Reader lists are immutable chains in
// a pool, so the halves of a split segment share theirs.
struct Segment {
  std::uint64_t lo, hi;
  std::uint32_t writer;   // node, or none
  std::uint32_t readers;  // index in the pool, or none
};

struct Reader {
  std::uint32_t node, next;
};

// Segments are disjoint and sorted; bytes nobody touched have none. They count only while `epoch`
// is the current one.
struct RegionMap {
  std::uint64_t epoch = 0;
  std::uint64_t written_in_call = 0;
  std::vector<Segment> segments;
};

// First segment that ends behind `lo`.
std::size_t find_segment(const std::vector<Segment>& segments, std::uint64_t lo) {
  if (segments.empty() || segments.back().hi <= lo) return segments.size();
  if (segments.front().hi > lo) return 0;
  const auto at = std::partition_point(segments.begin(), segments.end(),
                                       [lo](const Segment& s) { return s.hi <= lo; });
  return static_cast<std::size_t>(at - segments.begin());
}

// Mostly two or three, nearly in order: a call of std::sort costs more than finding them.
void sort_few(std::vector<std::uint32_t>& v) {
  if (v.size() > 8) return std::sort(v.begin(), v.end());
  for (std::size_t i = 1; i < v.size(); ++i) {
    const std::uint32_t x = v[i];
    std::size_t at = i;
    for (; at > 0 && v[at - 1] > x; --at) v[at] = v[at - 1];
    v[at] = x;
  }
}

}  // namespace

struct HazardWorkspace::State {
  std::vector<RegionMap> regions;
  std::vector<Reader> readers;
  std::vector<std::uint32_t> seen_by;       // per node: the last node that found it as predecessor
  std::vector<std::uint8_t> has_successor;  // per node
  std::vector<std::uint32_t> found;         // predecessors of the current node
  std::uint64_t epoch = 0;                  // grows with every call and every fence
  std::uint64_t call = 0;

  void start(const Program& program);
  void find_predecessors(const Program& program, std::uint32_t node);
  void read(RegionMap& map, std::uint64_t lo, std::uint64_t hi, std::uint32_t node);
  void write(RegionMap& map, std::uint64_t lo, std::uint64_t hi, std::uint32_t node);

  RegionMap& fresh(RegionMap& map) const {
    if (map.epoch != epoch) {
      map.epoch = epoch;
      map.segments.clear();
    }
    return map;
  }

  void found_predecessor(std::uint32_t u, std::uint32_t node) {
    if (u == none || u == node || seen_by[u] == node) return;
    seen_by[u] = node;
    found.push_back(u);
  }

  std::uint32_t push_reader(std::uint32_t node, std::uint32_t next) {
    readers.push_back({node, next});
    return static_cast<std::uint32_t>(readers.size() - 1);
  }
};

// Regions without a write order nothing: they are marked here and skipped later.
void HazardWorkspace::State::start(const Program& program) {
  ++epoch;
  ++call;
  readers.clear();
  seen_by.assign(program.size(), none);
  has_successor.assign(program.size(), 0);
  if (regions.size() < program.n_regions) regions.resize(program.n_regions);
  for (const Range& r : program.ranges) {
    if (r.region >= regions.size()) regions.resize(std::size_t{r.region} + 1);
    if (r.write) regions[r.region].written_in_call = call;
  }
}

void HazardWorkspace::State::read(RegionMap& map, std::uint64_t lo, std::uint64_t hi,
                                  std::uint32_t node) {
  auto& segments = map.segments;
  const auto insert = [&segments](std::size_t i, const Segment& s) {
    segments.insert(segments.begin() + static_cast<std::ptrdiff_t>(i), s);
  };
  for (std::size_t i = find_segment(segments, lo); lo < hi; ++i) {
    if (i == segments.size() || segments[i].lo > lo) {
      const std::uint64_t end = i == segments.size() ? hi : std::min(hi, segments[i].lo);
      insert(i, {lo, end, none, push_reader(node, none)});
      lo = end;
      continue;
    }
    if (segments[i].lo < lo) {
      Segment left = segments[i];
      left.hi = lo;
      segments[i].lo = lo;
      insert(i++, left);
    }
    if (segments[i].hi > hi) {
      Segment left = segments[i];
      left.hi = hi;
      segments[i].lo = hi;
      insert(i, left);
    }
    Segment& s = segments[i];
    found_predecessor(s.writer, node);
    if (s.readers == none || readers[s.readers].node != node) {
      s.readers = push_reader(node, s.readers);
    }
    lo = s.hi;
  }
}

// The reads of `node` come first: where it reads and writes the same bytes, the edge from their
// last writer is already there.
void HazardWorkspace::State::write(RegionMap& map, std::uint64_t lo, std::uint64_t hi,
                                   std::uint32_t node) {
  auto& segments = map.segments;
  const std::size_t first = find_segment(segments, lo);
  std::size_t last = first;
  for (; last < segments.size() && segments[last].lo < hi; ++last) {
    const Segment& s = segments[last];
    if (s.readers == none) found_predecessor(s.writer, node);
    for (std::uint32_t r = s.readers; r != none; r = readers[r].next) {
      found_predecessor(readers[r].node, node);
    }
  }
  const Segment written{lo, hi, node, none};
  if (last - first == 1 && segments[first].lo == lo && segments[first].hi == hi) {
    segments[first] = written;
    return;
  }
  Segment parts[3];
  std::size_t n_parts = 0;
  if (last > first && segments[first].lo < lo) {
    parts[n_parts] = segments[first];
    parts[n_parts++].hi = lo;
  }
  parts[n_parts++] = written;
  if (last > first && segments[last - 1].hi > hi) {
    parts[n_parts] = segments[last - 1];
    parts[n_parts++].lo = hi;
  }
  const auto at = [&segments](std::size_t i) {
    return segments.begin() + static_cast<std::ptrdiff_t>(i);
  };
  const std::size_t n_overwritten = std::min(n_parts, last - first);
  std::copy_n(parts, n_overwritten, at(first));
  if (n_overwritten < n_parts) {
    segments.insert(at(last), parts + n_overwritten, parts + n_parts);
  } else {
    segments.erase(at(first + n_parts), at(last));
  }
}

void HazardWorkspace::State::find_predecessors(const Program& program, std::uint32_t node) {
  const auto ranges = program.ranges_of(node);
  for (const Range& r : ranges) {
    RegionMap& map = regions[r.region];
    if (r.write || r.lo >= r.hi || map.written_in_call != call) continue;
    read(fresh(map), r.lo, r.hi, node);
  }
  for (const Range& r : ranges) {
    if (r.write && r.lo < r.hi) write(fresh(regions[r.region]), r.lo, r.hi, node);
  }
  sort_few(found);
}

HazardWorkspace::HazardWorkspace() : state_(new State) {}
HazardWorkspace::~HazardWorkspace() { delete state_; }
HazardWorkspace::HazardWorkspace(HazardWorkspace&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)) {}
HazardWorkspace& HazardWorkspace::operator=(HazardWorkspace&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

namespace {

// Drops from `found` (ascending) what follows from the rest and writes the node's ancestor row.
void reduce(std::vector<std::uint32_t>& found, BitMatrix& ancestors, std::uint32_t node) {
  const auto row = ancestors.row(node);
  std::size_t kept = found.size();
  std::size_t filled = 0;  // words of the row that are written
  for (std::size_t i = found.size(); i-- > 0;) {
    const std::uint32_t u = found[i];
    const std::size_t word = u / 64;
    const std::uint64_t bit = std::uint64_t{1} << (u % 64);
    const auto from = std::as_const(ancestors).row(u);
    if (filled == 0) {
      filled = word + 1;
      std::copy_n(from.begin(), filled, row.begin());
    } else if ((row[word] & bit) != 0) {
      continue;
    } else {
      for (std::size_t w = 0; w <= word; ++w) row[w] |= from[w];
    }
    row[word] |= bit;
    found[--kept] = u;
  }
  std::fill(row.begin() + static_cast<std::ptrdiff_t>(filled), row.end(), 0);
  found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept));
}

void set_all_before(BitMatrix& ancestors, std::uint32_t node) {
  const auto row = ancestors.row(node);
  const auto whole = static_cast<std::ptrdiff_t>(node / 64);
  std::fill(row.begin(), row.begin() + whole, ~std::uint64_t{0});
  std::fill(row.begin() + whole, row.end(), 0);
  if (node % 64 != 0) row[node / 64] = (std::uint64_t{1} << (node % 64)) - 1;
}

}  // namespace

void dependencies(const Program& program, HazardWorkspace& workspace, Dag& out) {
  if (workspace.state_ == nullptr) workspace.state_ = new HazardWorkspace::State;
  HazardWorkspace::State& state = *workspace.state_;
  const std::uint32_t n = program.size();
  const bool exact = n <= max_exact;
  state.start(program);
  out.pred_offsets.resize(std::size_t{n} + 1);
  out.pred_offsets[0] = 0;
  out.preds.clear();
  out.level.resize(n);
  out.n_levels = 0;
  out.edges_found = 0;
  out.reduced = exact;
  out.ancestors.reset(exact ? n : 0);

  std::uint32_t order_point = none;  // the last fence or opaque node
  for (std::uint32_t node = 0; node < n; ++node) {
    auto& found = state.found;
    found.clear();
    const NodeKind kind = program.kinds[node];
    const bool orders_all = kind != NodeKind::dispatch;
    if (orders_all) {
      for (std::uint32_t u = order_point == none ? 0 : order_point; u < node; ++u) {
        if (state.has_successor[u] == 0) found.push_back(u);
      }
      ++state.epoch;
      order_point = node;
    } else {
      state.find_predecessors(program, node);
      if (found.empty() && order_point != none) found.push_back(order_point);
    }
    out.edges_found += static_cast<std::uint32_t>(found.size());
    if (exact) {
      if (orders_all) {
        set_all_before(out.ancestors, node);
      } else {
        reduce(found, out.ancestors, node);
      }
    }
    std::uint32_t level = 0;
    for (const std::uint32_t u : found) {
      state.has_successor[u] = 1;
      const std::uint32_t weight = program.kinds[u] == NodeKind::fence ? 0 : 1;
      level = std::max(level, out.level[u] + weight);
    }
    out.level[node] = level;
    if (kind != NodeKind::fence) out.n_levels = std::max(out.n_levels, level + 1);
    out.preds.insert(out.preds.end(), found.begin(), found.end());
    out.pred_offsets[std::size_t{node} + 1] = static_cast<std::uint32_t>(out.preds.size());
  }
}

namespace {

bool ends_before(const Range& r, std::uint32_t region, std::uint64_t lo) {
  return r.region != region ? r.region < region : r.hi < lo;
}

// First stretch that ends at or behind `lo` of `region`.
std::size_t find_stretch(const std::vector<Range>& stretches, std::uint32_t region,
                         std::uint64_t lo) {
  if (stretches.empty() || ends_before(stretches.back(), region, lo)) return stretches.size();
  const auto at = std::partition_point(stretches.begin(), stretches.end(),
                                       [=](const Range& s) { return ends_before(s, region, lo); });
  return static_cast<std::size_t>(at - stretches.begin());
}

bool overlaps(const std::vector<Range>& stretches, const Range& r) {
  std::size_t i = find_stretch(stretches, r.region, r.lo);
  if (i < stretches.size() && stretches[i].region == r.region && stretches[i].hi == r.lo) ++i;
  return i < stretches.size() && stretches[i].region == r.region && stretches[i].lo < r.hi;
}

void unite(std::vector<Range>& stretches, const Range& r) {
  const std::size_t first = find_stretch(stretches, r.region, r.lo);
  std::size_t last = first;
  Range merged = r;
  for (; last < stretches.size(); ++last) {
    const Range& s = stretches[last];
    if (s.region != r.region || s.lo > r.hi) break;
    merged.lo = std::min(merged.lo, s.lo);
    merged.hi = std::max(merged.hi, s.hi);
  }
  const auto at = [&stretches](std::size_t i) {
    return stretches.begin() + static_cast<std::ptrdiff_t>(i);
  };
  if (first == last) {
    stretches.insert(at(first), merged);
  } else {
    stretches[first] = merged;
    stretches.erase(at(first + 1), at(last));
  }
}

}  // namespace

bool GroupTracker::conflicts(std::span<const Range> ranges) const noexcept {
  if (opaque_) return true;
  for (const Range& r : ranges) {
    if (r.lo < r.hi && overlaps(r.write ? touched_ : written_, r)) return true;
  }
  return false;
}

void GroupTracker::add(std::span<const Range> ranges) {
  empty_ = false;
  for (const Range& r : ranges) {
    if (r.lo >= r.hi) continue;
    ++n_ranges_;
    unite(touched_, r);
    if (r.write) unite(written_, r);
  }
}

void GroupTracker::reset() noexcept {
  touched_.clear();
  written_.clear();
  n_ranges_ = 0;
  empty_ = true;
  opaque_ = false;
}

}  // namespace onepass::graph
