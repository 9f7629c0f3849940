#include "graph/validate.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace onepass::graph {
namespace {

constexpr std::size_t batch_pairs = std::size_t{1} << 20;

std::string text(std::uint64_t value) { return std::to_string(value); }

std::uint32_t index32(std::size_t i) { return static_cast<std::uint32_t>(i); }

// --- shape of the recording ---

struct Fault {
  std::uint32_t launch;
  std::string message;
};

// `offsets` must cut `total` items in `parts` pieces: parts + 1 values, 0 first, total last, none
// smaller than the one before. No parts and no offsets are fine.
std::optional<Fault> offsets_fault(const char* what, const std::vector<std::uint32_t>& offsets,
                                   std::size_t parts, std::size_t total) {
  if (parts == 0 && total == 0 && offsets.empty()) return std::nullopt;
  if (offsets.size() != parts + 1) {
    return Fault{0, std::string(what) + " has " + text(offsets.size()) + " entries, expected " +
                        text(parts + 1)};
  }
  if (offsets.front() != 0 || offsets.back() != total) {
    return Fault{0, std::string(what) + " runs from " + text(offsets.front()) + " to " +
                        text(offsets.back()) + ", expected 0 to " + text(total)};
  }
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      return Fault{0, std::string(what) + "[" + text(i) + "] is " + text(offsets[i]) +
                          ", expected at least " + text(offsets[i - 1])};
    }
  }
  return std::nullopt;
}

std::optional<Fault> levels_fault(const Recording& r, const Order& order) {
  if (auto f =
          offsets_fault("level_offsets", order.level_offsets, order.n_levels(), r.launches.size()))
    return f;
  for (std::uint32_t level = 0; level < order.n_levels(); ++level) {
    for (std::uint32_t i = order.level_offsets[level]; i < order.level_offsets[level + 1]; ++i) {
      if (r.launches[i].level != level) {
        return Fault{i, "launch " + text(i) + " has level " + text(r.launches[i].level) +
                            ", level_offsets place it in level " + text(level)};
      }
    }
  }
  return std::nullopt;
}

std::optional<Fault> edges_fault(const Order& order, std::size_t n) {
  if (auto f = offsets_fault("edge_offsets", order.edge_offsets, n, order.edges.size())) return f;
  for (std::uint32_t i = 0; i < n; ++i) {
    for (const Edge& e : order.edges_into(i)) {
      if (e.from >= i) {
        return Fault{i, "launch " + text(i) + " waits for launch " + text(e.from) +
                            ", expected one before it"};
      }
    }
  }
  return std::nullopt;
}

std::optional<Fault> ranges_fault(const Recording& r) {
  const std::size_t n = r.launches.size();
  if (auto f = offsets_fault("range_offsets", r.range_offsets, n, r.ranges.size())) return f;
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::uint32_t k = r.range_offsets[i]; k < r.range_offsets[i + 1]; ++k) {
      const PhysicalRange& range = r.ranges[k];
      if (range.lo > range.hi) {
        return Fault{i, "launch " + text(i) + " has a range from " + text(range.lo) + " to " +
                            text(range.hi) + ", expected one that ends after its start"};
      }
    }
  }
  return std::nullopt;
}

std::optional<Fault> find_fault(const Recording& r, const Order& order) {
  const std::size_t n = r.launches.size();
  if (n >= std::numeric_limits<std::uint32_t>::max())
    return Fault{0, text(n) + " launches, expected fewer than 2^32 - 1"};
  if (auto f = ranges_fault(r)) return f;
  switch (order.kind) {
    case OrderKind::in_order:
      return std::nullopt;
    case OrderKind::levels:
      return levels_fault(r, order);
    case OrderKind::edges:
      return edges_fault(order, n);
  }
  return std::nullopt;
}

// --- which launches are ordered ---

struct Pair {
  std::uint32_t first, second;  // first < second
};

std::uint64_t key(Pair p) { return std::uint64_t{p.first} << 32 | p.second; }

// Which launches are complete before which: by the order alone, and for a launch that reads before
// it waits, when it starts.
class Reach {
 public:
  Reach(const Recording& recording, const Order& order) : recording_(recording), kind_(order.kind) {
    const std::uint32_t n = index32(recording.launches.size());
    program_.reserve(n);
    for (const RecordedLaunch& launch : recording.launches) {
      in_program_order_ &= program_.empty() || program_.back() <= launch.index;
      program_.push_back(launch.index);
    }
    if (kind_ == OrderKind::levels) {
      levels_.reserve(n);
      for (std::uint32_t level = 0; level < order.n_levels(); ++level) {
        levels_.resize(order.level_offsets[level + 1], level);
      }
    }
    if (kind_ != OrderKind::edges) return;
    offsets_.reserve(n + 1);
    offsets_.push_back(0);
    for (std::uint32_t v = 0; v < n; ++v) {
      for (const Edge& e : order.edges_into(v)) {
        if (e.programmatic &&
            !(waits_first(recording.launches[v]) && waits_first(recording.launches[e.from]))) {
          continue;  // orders nothing
        }
        edges_.push_back(e);
        has_programmatic_ |= e.programmatic;
      }
      offsets_.push_back(index32(edges_.size()));
    }
  }

  bool by_levels() const { return kind_ == OrderKind::levels; }
  bool in_order() const { return kind_ == OrderKind::in_order; }
  // Launches may start before those they wait for are complete.
  bool starts_early() const { return has_programmatic_; }
  // The list is the program's: no two launches changed places.
  bool in_program_order() const { return in_program_order_; }
  bool changed_places(Pair p) const { return program_[p.first] > program_[p.second]; }
  // Edges into v that order something.
  std::span<const Edge> edges_into(std::uint32_t v) const {
    return std::span(edges_).subspan(offsets_[v], offsets_[v + 1] - offsets_[v]);
  }

  // Removes the pairs whose first launch is sure to be complete before the second touches anything
  // (at_start: before it starts) and comes first in the program, too.
  void keep_unordered(std::vector<Pair>& pairs, bool at_start) {
    if (in_order()) {
      std::erase_if(pairs, [&](Pair p) { return !changed_places(p); });
    } else if (by_levels()) {
      std::erase_if(pairs, [&](Pair p) {
        return levels_[p.first] < levels_[p.second] && !changed_places(p);
      });
    } else {
      keep_unreachable(pairs, at_start);
    }
  }

 private:
  // Which of up to 512 sources reach a launch, itself included.
  static constexpr std::size_t row_words = 8, row_bits = 64 * row_words;
  using Row = std::array<std::uint64_t, row_words>;

  // Takes the sources in slices of row_bits and carries their bits forward along the edges, from
  // the slice's first source to the last launch that is asked about. At most
  // n * (n + edges) / 64 word operations, and far fewer where pairs stand close together.
  void keep_unreachable(std::vector<Pair>& pairs, bool at_start) {
    sort_by_first(pairs);
    std::size_t kept = 0;
    for (std::size_t begin = 0; begin < pairs.size();) {
      sources_.clear();
      std::uint32_t last = 0;
      std::size_t end = begin;
      for (; end < pairs.size(); ++end) {
        if (sources_.empty() || sources_.back() != pairs[end].first) {
          if (sources_.size() == row_bits) break;
          sources_.push_back(pairs[end].first);
        }
        last = std::max(last, pairs[end].second);
      }
      carry(last);
      if (at_start) carry_starts(last);
      const std::vector<Row>& rows = at_start ? starts_with_ : rows_;
      std::size_t bit = 0;
      for (std::size_t k = begin; k < end; ++k) {
        const Pair p = pairs[k];
        while (sources_[bit] != p.first) ++bit;
        const Row& row = rows[p.second - sources_.front()];
        const bool reached = (row[bit / 64] >> (bit % 64) & 1u) != 0;
        if (!reached || changed_places(p)) pairs[kept++] = p;
      }
      begin = end;
    }
    pairs.resize(kept);
  }

  void carry(std::uint32_t last) {
    const std::uint32_t start = sources_.front();
    if (rows_.size() < std::size_t{last} - start + 1) rows_.resize(std::size_t{last} - start + 1);
    std::size_t bit = 0;
    for (std::uint32_t i = start; i <= last; ++i) {
      Row row{};
      for (const Edge& e : edges_into(i)) {
        if (e.from < start) continue;
        const Row& from = rows_[e.from - start];
        for (std::size_t w = 0; w < row_words; ++w) row[w] |= from[w];
      }
      if (bit < sources_.size() && sources_[bit] == i) {
        row[bit / 64] |= std::uint64_t{1} << (bit % 64);
        ++bit;
      }
      rows_[i - start] = row;
    }
  }

  // Behind a full edge everything up to its source is complete; along a programmatic one a launch
  // starts with what was complete when the other started.
  void carry_starts(std::uint32_t last) {
    const std::uint32_t start = sources_.front();
    starts_with_.resize(rows_.size());
    for (std::uint32_t i = start; i <= last; ++i) {
      Row row{};
      for (const Edge& e : edges_into(i)) {
        if (e.from < start) continue;
        const Row& from = (e.programmatic ? starts_with_ : rows_)[e.from - start];
        for (std::size_t w = 0; w < row_words; ++w) row[w] |= from[w];
      }
      starts_with_[i - start] = row;
    }
  }

  void sort_by_first(std::vector<Pair>& pairs) {
    starts_.assign(recording_.launches.size() + 1, 0);
    for (Pair p : pairs) ++starts_[p.first + 1];
    for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    sorted_.resize(pairs.size());
    for (Pair p : pairs) sorted_[starts_[p.first]++] = p;
    pairs.swap(sorted_);
  }

  const Recording& recording_;
  OrderKind kind_;
  bool in_program_order_ = true;
  bool has_programmatic_ = false;
  std::vector<std::uint32_t> program_;  // index of each launch in the program
  std::vector<std::uint32_t> levels_;
  std::vector<std::uint32_t> offsets_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> sources_;
  std::vector<Row> rows_, starts_with_;
  std::vector<std::size_t> starts_;
  std::vector<Pair> sorted_;
};

// Collects pairs, tests them in batches and hands the unordered ones to `found`, which returns
// false when it has enough.
template <class Found>
class PairTest {
 public:
  PairTest(Reach& reach, Found found) : reach_(reach), found_(std::move(found)) {}

  void add(std::uint32_t a, std::uint32_t b) {
    pairs_.push_back({std::min(a, b), std::max(a, b)});
    if (pairs_.size() >= batch_pairs) flush();
  }
  // `reader` touches bytes before it waits that `writer` writes.
  void add_early(std::uint32_t writer, std::uint32_t reader) {
    if (writer >= reader) return;  // what is written later waits for the reader
    early_.push_back({writer, reader});
    if (early_.size() >= batch_pairs) flush();
  }
  void flush() {
    test(pairs_, false);
    test(early_, true);
  }
  bool done() const { return done_; }

 private:
  void test(std::vector<Pair>& pairs, bool early) {
    reach_.keep_unordered(pairs, early);
    for (std::size_t i = 0; i < pairs.size() && !done_; ++i) done_ = !found_(pairs[i], early);
    pairs.clear();
  }

  Reach& reach_;
  Found found_;
  std::vector<Pair> pairs_, early_;
  bool done_ = false;
};

// --- which launches must be ordered: shared bytes ---

struct Access {
  std::uint64_t region, lo, hi;
  std::uint32_t launch;
  bool write, early;
};

// Accesses to regions that something writes, by region and start.
std::vector<Access> gather(const Recording& r) {
  std::unordered_set<std::uint64_t> written;
  for (const PhysicalRange& range : r.ranges) {
    if (range.write && range.lo < range.hi) written.insert(range.region);
  }
  std::vector<Access> accesses;
  accesses.reserve(r.ranges.size());
  for (std::uint32_t i = 0; i < r.launches.size(); ++i) {
    for (std::uint32_t k = r.range_offsets[i]; k < r.range_offsets[i + 1]; ++k) {
      const PhysicalRange& range = r.ranges[k];
      if (range.lo < range.hi && written.count(range.region) != 0)
        accesses.push_back({range.region, range.lo, range.hi, i, range.write, range.early});
    }
  }
  std::sort(accesses.begin(), accesses.end(), [](const Access& a, const Access& b) {
    if (a.region != b.region) return a.region < b.region;
    return a.lo != b.lo ? a.lo < b.lo : a.launch < b.launch;
  });
  return accesses;
}

// The launches whose accesses cover the sweep's current byte.
class Active {
 public:
  void start(const Access& access) {
    (access.write ? writers_ : readers_).insert(access.launch);
    if (access.early) early_.insert(access.launch);
    ends_.push_back({access.hi, access.launch, access.write, access.early});
    std::push_heap(ends_.begin(), ends_.end());
  }
  void end_until(std::uint64_t byte) {
    while (!ends_.empty() && ends_.front().hi <= byte) {
      const End end = ends_.front();
      std::pop_heap(ends_.begin(), ends_.end());
      ends_.pop_back();
      Launches& launches = end.write ? writers_ : readers_;
      launches.erase(launches.find(end.launch));
      if (end.early) early_.erase(early_.find(end.launch));
    }
  }
  void clear() {
    writers_.clear();
    readers_.clear();
    early_.clear();
    ends_.clear();
  }

  // Every conflict of `access`.
  template <class Test>
  void all_conflicts(const Access& access, Test& test) const {
    add_others(access.launch, writers_.begin(), writers_.end(), test);
    if (access.write) add_others(access.launch, readers_.begin(), readers_.end(), test);
    if (access.early) {
      for (const std::uint32_t writer : writers_) test.add_early(writer, access.launch);
    }
    if (access.write) {
      for (const std::uint32_t reader : early_) test.add_early(access.launch, reader);
    }
  }

  // Conflicts with the nearest writers on both sides and, for a write, the reads up to them. The
  // rest follow: whatever lies beyond a writer conflicts with that writer and is already ordered
  // with it, and order is transitive.
  template <class Test>
  void nearest_conflicts(const Access& access, Test& test) const {
    const auto [lower, upper] = writers_.equal_range(access.launch);
    auto from = readers_.begin();
    auto to = readers_.end();
    if (lower != writers_.begin()) {
      const std::uint32_t before = *std::prev(lower);
      test.add(before, access.launch);
      if (access.early) test.add_early(before, access.launch);
      if (access.write) from = readers_.upper_bound(before);
    }
    if (upper != writers_.end()) {
      test.add(access.launch, *upper);
      if (access.write) to = readers_.lower_bound(*upper);
    }
    if (!access.write) return;
    add_others(access.launch, from, to, test);
    auto reader = early_.upper_bound(access.launch);
    const auto end = upper != writers_.end() ? early_.upper_bound(*upper) : early_.end();
    for (; reader != end; ++reader) test.add_early(access.launch, *reader);
  }

 private:
  using Launches = std::multiset<std::uint32_t>;
  struct End {
    std::uint64_t hi;
    std::uint32_t launch;
    bool write, early;
    bool operator<(const End& other) const { return hi > other.hi; }  // heap: smallest first
  };

  template <class Test>
  static void add_others(std::uint32_t launch, Launches::const_iterator from,
                         Launches::const_iterator to, Test& test) {
    for (; from != to && !test.done(); ++from) {
      if (*from != launch) test.add(*from, launch);
    }
  }

  Launches writers_, readers_, early_;
  std::vector<End> ends_;
};

template <class Test>
void sweep(const std::vector<Access>& accesses, bool all, Test& test) {
  Active active;
  for (std::size_t i = 0; i < accesses.size() && !test.done(); ++i) {
    const Access& access = accesses[i];
    if (i > 0 && access.region != accesses[i - 1].region) active.clear();
    active.end_until(access.lo);
    if (all) {
      active.all_conflicts(access, test);
    } else {
      active.nearest_conflicts(access, test);
    }
    active.start(access);
  }
}

// --- which launches must be ordered: fences ---

// Launches without a fence between them: [begin, end).
struct Segment {
  std::uint32_t begin, end;
};

std::vector<Segment> cut_at_fences(const Recording& r) {
  std::vector<Segment> segments;
  const std::uint32_t n = index32(r.launches.size());
  for (std::uint32_t i = 0; i < n;) {
    std::uint32_t end = i;
    while (end < n && !r.launches[end].is_fence()) ++end;
    if (end > i) segments.push_back({i, end});
    i = end + 1;
  }
  return segments;
}

template <class Test>
void all_fenced(const std::vector<Segment>& segments, Test& test) {
  for (std::size_t a = 0; a < segments.size(); ++a) {
    for (std::size_t b = a + 1; b < segments.size(); ++b) {
      for (std::uint32_t u = segments[a].begin; u < segments[a].end; ++u) {
        for (std::uint32_t v = segments[b].begin; v < segments[b].end; ++v) {
          if (test.done()) return;
          test.add(u, v);
        }
      }
    }
  }
}

// Pairs of neighbouring segments that imply all others. With edges: the ends of the first segment
// with the starts of the second, unless all of them are tied to the fence between.
template <class Test>
void nearest_fenced(const Recording& r, const std::vector<Segment>& segments, Reach& reach,
                    Test& test) {
  if (segments.size() < 2) return;
  if (reach.by_levels()) {  // the list is sorted by level
    for (std::size_t s = 1; s < segments.size(); ++s)
      test.add(segments[s - 1].end - 1, segments[s].begin);
    return;
  }

  std::vector<std::vector<std::uint32_t>> starts(segments.size()), ends(segments.size());
  std::vector<std::uint8_t> has_successor(r.launches.size(), 0);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    for (std::uint32_t i = segments[s].begin; i < segments[s].end; ++i) {
      bool is_start = true;
      for (const Edge& e : reach.edges_into(i)) {
        if (e.from < segments[s].begin) continue;
        has_successor[e.from] = 1;
        is_start = false;
      }
      if (is_start) starts[s].push_back(i);
    }
    for (std::uint32_t i = segments[s].begin; i < segments[s].end; ++i) {
      if (!has_successor[i]) ends[s].push_back(i);
    }
  }

  std::vector<std::uint8_t> tied(segments.size(), 1);  // segment s to the one before
  std::vector<Pair> ties;
  for (std::size_t s = 1; s < segments.size(); ++s) {
    const std::uint32_t fence = segments[s - 1].end;
    for (std::uint32_t u : ends[s - 1]) ties.push_back({u, fence});
    for (std::uint32_t v : starts[s]) ties.push_back({fence, v});
  }
  reach.keep_unordered(ties, false);
  for (Pair p : ties) {
    const std::uint32_t fence = r.launches[p.first].is_fence() ? p.first : p.second;
    const auto next = std::partition_point(segments.begin(), segments.end(),
                                           [&](Segment s) { return s.begin <= fence; });
    tied[static_cast<std::size_t>(next - segments.begin())] = 0;
  }
  for (std::size_t s = 1; s < segments.size(); ++s) {
    if (tied[s]) continue;
    for (std::uint32_t u : ends[s - 1]) {
      for (std::uint32_t v : starts[s]) test.add(u, v);
    }
  }
}

// Launches that stand on the wrong side of a fence, one on either side of each fence.
template <class Test>
void moved_past_fences(const Recording& r, Test& test) {
  const std::uint32_t n = index32(r.launches.size());
  const auto program = [&](std::uint32_t i) { return r.launches[i].index; };
  for (std::uint32_t latest = 0, i = 0; i < n; ++i) {
    if (r.launches[i].is_fence() && program(latest) > program(i)) test.add(latest, i);
    if (program(i) > program(latest)) latest = i;
  }
  for (std::uint32_t earliest = n == 0 ? 0 : n - 1, i = n; i-- > 0;) {
    if (r.launches[i].is_fence() && program(earliest) < program(i)) test.add(i, earliest);
    if (program(i) < program(earliest)) earliest = i;
  }
}

// --- reports ---

// 0 read after write, 1 write after write, 2 write after read.
unsigned hazard(bool first_writes, bool second_writes) {
  return !second_writes ? 0 : first_writes ? 1 : 2;
}

// The pair's lowest shared bytes; none: a fence separates them.
Violation make_violation(const Recording& r, Pair p, bool early) {
  Violation best{p.first, p.second, 0, 0, 0, false, false, false};
  for (std::uint32_t i = r.range_offsets[p.first]; i < r.range_offsets[p.first + 1]; ++i) {
    for (std::uint32_t k = r.range_offsets[p.second]; k < r.range_offsets[p.second + 1]; ++k) {
      const PhysicalRange &a = r.ranges[i], &b = r.ranges[k];
      const std::uint64_t lo = std::max(a.lo, b.lo), hi = std::min(a.hi, b.hi);
      if (a.region != b.region || lo >= hi || !(a.write || b.write)) continue;
      if (early && !(a.write && b.early)) continue;
      const auto rank = [](const Violation& v) {
        return std::tuple(v.region, v.lo, hazard(v.first_writes, v.second_writes));
      };
      const Violation shared{p.first, p.second, a.region, lo, hi, a.write, b.write, early};
      if (best.lo == best.hi || rank(shared) < rank(best)) best = shared;
    }
  }
  return best;
}

// The launches at fault stand next to each other: where one edge is missing, every pair that
// misses it spans it.
bool is_closer(Pair a, Pair b) {
  const std::uint32_t span_a = a.second - a.first, span_b = b.second - b.first;
  return span_a != span_b ? span_a < span_b : a.first < b.first;
}

std::vector<Violation> find_in_sound(const Recording& r, const Order& order, std::size_t limit) {
  if (limit == 0) return {};
  Reach reach(r, order);
  if (reach.in_order() && reach.in_program_order()) return {};
  const std::vector<Access> accesses = gather(r);
  const std::vector<Segment> segments = cut_at_fences(r);

  std::optional<Pair> closest;
  bool closest_is_early = false;
  PairTest proof(reach, [&](Pair p, bool early) {
    if (!closest || is_closer(p, *closest)) {
      closest = p;
      closest_is_early = early;
    }
    return true;
  });
  sweep(accesses, false, proof);
  if (!reach.in_order()) nearest_fenced(r, segments, reach, proof);
  if (!reach.in_program_order()) moved_past_fences(r, proof);
  proof.flush();
  if (!closest) return {};

  std::vector<Violation> violations{make_violation(r, *closest, closest_is_early)};
  if (limit == 1) return violations;
  std::unordered_set<std::uint64_t> seen{key(*closest)};
  PairTest search(reach, [&](Pair p, bool early) {
    if (seen.insert(key(p)).second) violations.push_back(make_violation(r, p, early));
    return violations.size() < limit;
  });
  sweep(accesses, true, search);
  if (!reach.in_order()) all_fenced(segments, search);
  if (!reach.in_program_order()) moved_past_fences(r, search);
  search.flush();
  return violations;
}

std::string launch_text(const Recording& r, std::uint32_t i) {
  std::string s = "launch " + text(i);
  if (i >= r.launches.size()) return s;
  const RecordedLaunch& launch = r.launches[i];
  if (launch.is_fence()) {
    s += " (a fence)";
  } else if (launch.kernel->name && *launch.kernel->name) {
    s += " '" + std::string(launch.kernel->name) + "'";
  }
  if (launch.label && *launch.label) s += " labelled '" + std::string(launch.label) + "'";
  return s;
}

std::string malformed(const Fault& fault) { return "malformed recording: " + fault.message; }

}  // namespace

std::vector<Violation> find_violations(const Recording& recording, const Order& order,
                                       std::size_t limit) {
  if (limit == 0) return {};
  if (const auto fault = find_fault(recording, order))
    return {Violation{fault->launch, fault->launch, 0, 0, 0, false, false, false}};
  return find_in_sound(recording, order, limit);
}

std::string describe(const Recording& recording, const Order& order, const Violation& v) {
  const std::string first = launch_text(recording, v.first);
  const std::string second = launch_text(recording, v.second);
  if (v.first == v.second) {
    const auto fault = find_fault(recording, order);
    return fault ? malformed(*fault) : "malformed recording at " + first;
  }
  const std::size_t n = recording.launches.size();
  if (v.first < n && v.second < n &&
      recording.launches[v.first].index > recording.launches[v.second].index) {
    const std::string shared = v.lo == v.hi ? ""
                                            : "; both touch bytes [" + text(v.lo) + ", " +
                                                  text(v.hi) + ") of region " + text(v.region);
    return "program order not kept: " + first + " stands before " + second +
           ", in the program behind it" + shared;
  }
  if (v.lo == v.hi) {
    std::string fence = "a fence";
    for (std::size_t i = std::size_t{v.first} + 1; i < recording.launches.size() && i < v.second;
         ++i) {
      if (recording.launches[i].is_fence()) {
        fence = "fence " + text(i);
        break;
      }
    }
    return "fence not kept: " + first + " and " + second + " stand on either side of " + fence +
           " and are not ordered";
  }
  if (v.early) {
    return "read before the wait: " + second + " may start before " + first +
           ", which writes bytes [" + text(v.lo) + ", " + text(v.hi) + ") of region " +
           text(v.region) + ", is complete";
  }
  static constexpr std::array<const char*, 3> hazards{"read after write", "write after write",
                                                      "write after read"};
  return std::string(hazards[hazard(v.first_writes, v.second_writes)]) + " not ordered: " + first +
         (v.first_writes ? " (writes)" : " (reads)") + " and " + second +
         (v.second_writes ? " (writes)" : " (reads)") + " share bytes [" + text(v.lo) + ", " +
         text(v.hi) + ") of region " + text(v.region);
}

Status validate(const Recording& recording, const Order& order) {
  if (const auto fault = find_fault(recording, order))
    return fail(ErrorCode::internal, malformed(*fault));
  const std::vector<Violation> violations = find_in_sound(recording, order, 1);
  if (!violations.empty())
    return fail(ErrorCode::internal, describe(recording, order, violations.front()));
  return {};
}

}  // namespace onepass::graph
