#include "graph/validate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "core/os.h"
#include "support/ordered_recording.h"

namespace onepass::graph::validate_test {
namespace {

using testing::describe;
using testing::find_violations;
using testing::OrderedRecording;
using testing::validate;

// Single-threaded code gains little from a sanitizer's slowness: fewer rounds there.
constexpr int rounds(int n) { return os::sanitized ? n / 10 : n; }

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
constexpr auto levels = OrderKind::levels;
constexpr auto edges = OrderKind::edges;
constexpr auto in_order = OrderKind::in_order;

const KernelRow plain_row{.name = "plain"};

struct Node {
  bool fence = false;
  std::vector<PhysicalRange> ranges;
};

Node fence() { return {true, {}}; }
Node node(std::vector<PhysicalRange> ranges) { return {false, std::move(ranges)}; }
PhysicalRange read(std::uint64_t region, std::uint64_t lo, std::uint64_t hi) {
  return {region, lo, hi, false};
}
PhysicalRange write(std::uint64_t region, std::uint64_t lo, std::uint64_t hi) {
  return {region, lo, hi, true};
}

using Preds = std::vector<std::vector<std::uint32_t>>;
using Pairs = std::set<std::pair<std::uint32_t, std::uint32_t>>;

OrderedRecording make_recording(const std::vector<Node>& nodes) {
  OrderedRecording r;
  r.range_offsets.push_back(0);
  r.launches.reserve(nodes.size());
  for (const Node& n : nodes) {
    RecordedLaunch& launch = r.launches.emplace_back();
    launch.kernel = n.fence ? nullptr : &plain_row;
    r.ranges.insert(r.ranges.end(), n.ranges.begin(), n.ranges.end());
    r.range_offsets.push_back(static_cast<std::uint32_t>(r.ranges.size()));
  }
  return r;
}

OrderedRecording with_levels(const std::vector<Node>& nodes,
                             const std::vector<std::uint32_t>& level) {
  OrderedRecording r = make_recording(nodes);
  r.set_levels(level);
  return r;
}

OrderedRecording with_preds(const std::vector<Node>& nodes, const Preds& preds) {
  OrderedRecording r = make_recording(nodes);
  r.set_preds(preds);
  return r;
}

// ---- byte-by-byte oracle: up to 4 regions of 64 bytes, one bit per byte ----

constexpr std::size_t oracle_regions = 4;
constexpr std::uint64_t oracle_bytes = 64;

struct Touched {
  std::array<std::uint64_t, oracle_regions> read{}, write{};
};

std::uint64_t conflict_bytes(const Touched& a, const Touched& b, std::size_t region) {
  return (a.write[region] & (b.read[region] | b.write[region])) |
         (a.read[region] & b.write[region]);
}

class Oracle {
 public:
  explicit Oracle(const OrderedRecording& r)
      : n_(r.launches.size()), touched_(n_), required_(n_, std::vector<bool>(n_)) {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::uint32_t k = r.range_offsets[i]; k < r.range_offsets[i + 1]; ++k) {
        const PhysicalRange& p = r.ranges[k];
        auto& bits = p.write ? touched_[i].write : touched_[i].read;
        for (std::uint64_t b = p.lo; b < p.hi; ++b) bits[p.region] |= std::uint64_t{1} << b;
      }
    }
    for (std::size_t u = 0; u < n_; ++u) {
      bool fenced = false;
      for (std::size_t v = u + 1; v < n_; ++v) {
        const bool fences = r.launches[u].is_fence() || r.launches[v].is_fence();
        required_[u][v] = shares_bytes(u, v) || (fenced && !fences);
        fenced = fenced || r.launches[v].is_fence();
      }
    }
  }

  bool shares_bytes(std::size_t u, std::size_t v) const {
    for (std::size_t region = 0; region < oracle_regions; ++region) {
      if (conflict_bytes(touched_[u], touched_[v], region) != 0) return true;
    }
    return false;
  }
  bool required(std::size_t u, std::size_t v) const { return required_[u][v]; }
  const Touched& touched(std::size_t i) const { return touched_[i]; }

  Pairs unordered(const OrderedRecording& r, OrderKind model) const {
    std::vector<std::vector<bool>> reach(n_, std::vector<bool>(n_));
    if (model == edges) {
      for (std::size_t v = 0; v < n_; ++v) {
        for (std::uint32_t e = r.pred_offsets[v]; e < r.pred_offsets[v + 1]; ++e) {
          const std::size_t p = r.preds[e];
          reach[p][v] = true;
          for (std::size_t u = 0; u < p; ++u) reach[u][v] = reach[u][v] || reach[u][p];
        }
      }
    }
    Pairs pairs;
    for (std::uint32_t u = 0; u < n_; ++u) {
      for (std::uint32_t v = u + 1; v < n_; ++v) {
        const bool ordered = model == in_order ? true
                             : model == edges  ? reach[u][v]
                                               : r.launches[u].level < r.launches[v].level;
        const bool changed_places = r.launches[u].index > r.launches[v].index;
        if (required_[u][v] && (!ordered || changed_places)) pairs.insert({u, v});
      }
    }
    return pairs;
  }

 private:
  std::size_t n_;
  std::vector<Touched> touched_;
  std::vector<std::vector<bool>> required_;
};

bool has_fence_between(const OrderedRecording& r, const Violation& v) {
  return std::any_of(r.launches.begin() + v.first, r.launches.begin() + v.second,
                     [](const RecordedLaunch& l) { return l.is_fence(); });
}

void expect_true_violation(const OrderedRecording& r, const Oracle& oracle, const Violation& v) {
  ASSERT_LT(v.first, v.second);
  if (!oracle.shares_bytes(v.first, v.second)) {
    EXPECT_EQ(v.lo, v.hi);
    EXPECT_TRUE(has_fence_between(r, v));
    return;
  }
  ASSERT_LT(v.lo, v.hi);
  ASSERT_LT(v.region, oracle_regions);
  ASSERT_LE(v.hi, oracle_bytes);
  EXPECT_TRUE(v.first_writes || v.second_writes);
  const Touched &a = oracle.touched(v.first), &b = oracle.touched(v.second);
  for (std::size_t lower = 0; lower < v.region; ++lower)
    EXPECT_EQ(conflict_bytes(a, b, lower), 0u) << "not the lowest region";
  EXPECT_EQ(static_cast<std::uint64_t>(std::countr_zero(conflict_bytes(a, b, v.region))), v.lo);
  for (std::uint64_t byte = v.lo; byte < v.hi; ++byte) {
    EXPECT_TRUE((v.first_writes ? a.write : a.read)[v.region] >> byte & 1u);
    EXPECT_TRUE((v.second_writes ? b.write : b.read)[v.region] >> byte & 1u);
  }
}

// Compares with the oracle: all violations, the first one, and validate. Returns how many.
std::size_t expect_as_oracle(const OrderedRecording& r, const Oracle& oracle, OrderKind model) {
  const Pairs expected = oracle.unordered(r, model);
  Pairs found;
  for (const Violation& v : find_violations(r, model, no_limit)) {
    EXPECT_TRUE(found.insert({v.first, v.second}).second) << "reported twice";
    expect_true_violation(r, oracle, v);
  }
  EXPECT_EQ(found, expected);

  const std::vector<Violation> one = find_violations(r, model, 1);
  const Status status = validate(r, model);
  EXPECT_EQ(one.size(), expected.empty() ? 0u : 1u);
  EXPECT_EQ(status.has_value(), expected.empty());
  if (one.size() == 1 && !expected.empty()) {
    const auto closest = std::min_element(expected.begin(), expected.end(), [](auto a, auto b) {
      return a.second - a.first < b.second - b.first;
    });
    EXPECT_EQ(std::pair(one[0].first, one[0].second), *closest);
    EXPECT_EQ(status.error().code, ErrorCode::internal);
    EXPECT_EQ(status.error().message, describe(r, one[0]));
  }
  return expected.size();
}

// ---- random recordings ----

using Random = std::mt19937;

std::uint32_t pick(Random& random, std::uint32_t n) {
  return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random);
}

PhysicalRange random_range(Random& random, std::uint32_t n_regions, std::uint32_t grain) {
  const std::uint32_t cells = static_cast<std::uint32_t>(oracle_bytes) / grain;
  std::uint64_t lo = pick(random, cells), hi = lo;
  if (pick(random, 8) != 0) hi = std::min<std::uint64_t>(cells, lo + 1 + pick(random, cells / 2));
  return {pick(random, n_regions), lo * grain, hi * grain, pick(random, 3) == 0};
}

std::vector<Node> random_nodes(Random& random) {
  const std::uint32_t n = 1 + pick(random, 64);
  const std::uint32_t n_regions = 1 + pick(random, oracle_regions);
  const std::uint32_t grain = 1u << pick(random, 4);
  const std::uint32_t fence_odds = pick(random, 2) ? 4 + pick(random, 20) : 0;
  std::vector<Node> nodes(n);
  for (Node& x : nodes) {
    x.fence = fence_odds != 0 && pick(random, fence_odds) == 0;
    if (x.fence) continue;
    for (std::uint32_t k = pick(random, 4); k > 0; --k)
      x.ranges.push_back(random_range(random, n_regions, grain));
    if (!x.ranges.empty() && pick(random, 4) == 0) {  // the same bytes, read and written
      x.ranges.push_back(x.ranges.front());
      x.ranges.back().write = !x.ranges.back().write;
    }
  }
  return nodes;
}

// A recording in level order that keeps every order, with the fewest edges.
struct Correct {
  OrderedRecording recording;
  Preds preds;
  std::vector<std::uint32_t> level;
};

Correct make_correct(std::vector<Node> nodes) {
  const std::size_t n = nodes.size();
  OrderedRecording draft = make_recording(nodes);
  const Oracle before(draft);
  const auto needs = [](const Oracle& o, const OrderedRecording& r, std::size_t u, std::size_t v) {
    return o.required(u, v) || r.launches[u].is_fence() || r.launches[v].is_fence();
  };
  // A fence shares the level of what follows it.
  std::vector<std::uint32_t> level(n, 0);
  for (std::size_t v = 0; v < n; ++v) {
    for (std::size_t u = 0; u < v; ++u) {
      if (needs(before, draft, u, v))
        level[v] = std::max(level[v], level[u] + (nodes[u].fence ? 0 : 1));
    }
  }
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return level[a] < level[b]; });

  Correct c;
  std::vector<Node> sorted;
  for (std::size_t i : order) {
    sorted.push_back(nodes[i]);
    c.level.push_back(level[i]);
  }
  c.recording = make_recording(sorted);
  const Oracle oracle(c.recording);
  std::vector<std::vector<bool>> reach(n, std::vector<bool>(n));
  c.preds.resize(n);
  for (std::size_t v = 0; v < n; ++v) {
    for (std::size_t u = v; u-- > 0;) {  // nearest first: an edge is added only where no path is
      if (reach[u][v] || !needs(oracle, c.recording, u, v)) continue;
      c.preds[v].push_back(static_cast<std::uint32_t>(u));
      reach[u][v] = true;
      for (std::size_t w = 0; w < u; ++w) reach[w][v] = reach[w][v] || reach[w][u];
    }
  }
  c.recording.set_levels(c.level);
  c.recording.set_preds(c.preds);
  return c;
}

// ---- hand-made recordings ----

TEST(Validate, NamesTheHazardBothLaunchesAndTheBytes) {
  static const KernelRow matmul{.name = "matmul"}, rope{.name = "rope"};
  OrderedRecording r =
      with_levels({node({write(7, 0, 512)}), node({read(7, 256, 1024), write(8, 0, 4)})}, {0, 0});
  r.launches[0].kernel = &matmul;
  r.launches[1].kernel = &rope;
  const Status raw = validate(r, levels);
  ASSERT_FALSE(raw.has_value());
  EXPECT_EQ(raw.error().code, ErrorCode::internal);
  EXPECT_EQ(raw.error().message,
            "read after write not ordered: launch 0 'matmul' (writes) and launch 1 'rope' (reads) "
            "share bytes [256, 512) of region 7");

  r.launches[1].label = "blk.0.q";
  r.ranges[0].write = false;
  r.ranges[1].write = true;
  EXPECT_EQ(validate(r, levels).error().message,
            "write after read not ordered: launch 0 'matmul' (reads) and launch 1 'rope' labelled "
            "'blk.0.q' (writes) share bytes [256, 512) of region 7");

  r.ranges[0].write = true;
  EXPECT_EQ(describe(r, find_violations(r, levels).at(0)).rfind("write after write", 0), 0u);

  r.ranges[0].write = r.ranges[1].write = false;
  EXPECT_TRUE(validate(r, levels).has_value());
}

TEST(Validate, NamesTheFence) {
  const OrderedRecording r = with_levels({node({}), fence(), node({})}, {0, 0, 0});
  const std::vector<Violation> found = find_violations(r, levels, no_limit);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].lo, found[0].hi);
  EXPECT_EQ(describe(r, found[0]),
            "fence not kept: launch 0 'plain' and launch 2 'plain' stand on either side of fence 1 "
            "and are not ordered");
  EXPECT_TRUE(validate(r, in_order).has_value());
}

TEST(Validate, AdjacentEmptyAndForeignRangesDoNotConflict) {
  const OrderedRecording r =
      with_preds({node({write(1, 0, 16)}), node({write(1, 16, 32)}), node({write(1, 8, 8)}),
                  node({write(2, 0, 32)}), node({read(1, 32, 64), write(1, 40, 40)})},
                 {{}, {}, {}, {}, {}});
  EXPECT_TRUE(validate(r, edges).has_value());
}

TEST(Validate, RangesReachTheEndOfTheAddressSpace) {
  const std::uint64_t top = std::numeric_limits<std::uint64_t>::max();
  const OrderedRecording r =
      with_preds({node({write(top, top - 1, top)}), node({read(top, 0, top)})}, {{}, {}});
  const std::vector<Violation> found = find_violations(r, edges, no_limit);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].lo, top - 1);
  EXPECT_EQ(found[0].hi, top);
}

TEST(Validate, EdgesCountThroughOtherLaunches) {
  const std::vector<Node> nodes{node({write(0, 0, 8)}), node({}), node({}), node({read(0, 0, 8)})};
  EXPECT_TRUE(validate(with_preds(nodes, {{}, {0}, {1}, {2}}), edges).has_value());
  EXPECT_FALSE(validate(with_preds(nodes, {{}, {0}, {}, {2}}), edges).has_value());
}

TEST(Validate, FenceMayBeKeptWithoutEdgesToIt) {
  const std::vector<Node> nodes{node({}), node({}), fence(), node({}), node({})};
  EXPECT_TRUE(validate(with_preds(nodes, {{}, {}, {0, 1}, {2}, {2}}), edges).has_value());
  EXPECT_TRUE(validate(with_preds(nodes, {{}, {0}, {}, {1}, {3}}), edges).has_value());
  EXPECT_EQ(find_violations(with_preds(nodes, {{}, {}, {0, 1}, {2}, {}}), edges, no_limit).size(),
            2u);
  EXPECT_TRUE(validate(with_preds({fence(), node({}), node({}), fence()}, {{}, {}, {}, {}}), edges)
                  .has_value());
}

TEST(Validate, EmptyRecordingIsSound) {
  const OrderedRecording bare;
  OrderedRecording with_offsets;
  with_offsets.level_offsets = with_offsets.pred_offsets = with_offsets.range_offsets = {0};
  for (OrderKind model : {levels, edges, in_order}) {
    EXPECT_TRUE(validate(bare, model).has_value());
    EXPECT_TRUE(validate(with_offsets, model).has_value());
  }
}

TEST(Validate, LimitCutsTheList) {
  std::vector<Node> nodes(12, node({write(0, 0, 1)}));
  const OrderedRecording r = with_preds(nodes, Preds(12));
  EXPECT_TRUE(find_violations(r, edges, 0).empty());
  for (std::size_t limit : {1u, 2u, 7u, 65u, 66u})
    EXPECT_EQ(find_violations(r, edges, limit).size(), limit);
  EXPECT_EQ(find_violations(r, edges, no_limit).size(), 12u * 11u / 2);
}

// ---- malformed recordings ----

struct Damage {
  const char* what;
  OrderKind model;
  void (*apply)(OrderedRecording&);
  const char* says;
};

TEST(Validate, MalformedRecordingsAreErrors) {
  const Damage damages[] = {
      {"no ranges", in_order, [](OrderedRecording& r) { r.range_offsets.clear(); },
       "range_offsets has 0"},
      {"short ranges", levels, [](OrderedRecording& r) { r.range_offsets.pop_back(); },
       "expected 4"},
      {"range end", edges, [](OrderedRecording& r) { r.range_offsets.back() = 99; }, "to 99"},
      {"range start", edges, [](OrderedRecording& r) { r.range_offsets[0] = 1; }, "from 1"},
      {"range order", edges, [](OrderedRecording& r) { r.range_offsets[1] = 4000; },
       "at least 4000"},
      {"lost range", edges, [](OrderedRecording& r) { r.ranges.pop_back(); }, "expected 0 to 2"},
      {"reversed", in_order, [](OrderedRecording& r) { r.ranges[1].lo = 9; },
       "launch 1 has a range"},
      {"no levels", levels, [](OrderedRecording& r) { r.level_offsets.clear(); },
       "level_offsets has 0"},
      {"level end", levels, [](OrderedRecording& r) { r.level_offsets.back() = 2; }, "0 to 3"},
      {"level past", levels, [](OrderedRecording& r) { r.level_offsets[1] = 1u << 31; },
       "at least"},
      {"wrong level", levels, [](OrderedRecording& r) { r.launches[1].level = 2; },
       "launch 1 has level 2"},
      {"wrong level", levels, [](OrderedRecording& r) { r.launches[2].level = 0; },
       "launch 2 has level 0"},
      {"no edges", edges, [](OrderedRecording& r) { r.pred_offsets.clear(); },
       "edge_offsets has 0"},
      {"long edges", edges, [](OrderedRecording& r) { r.pred_offsets.push_back(2); },
       "has 5 entries"},
      {"edge order", edges, [](OrderedRecording& r) { r.pred_offsets[2] = 77; }, "at least 77"},
      {"lost edge", edges, [](OrderedRecording& r) { r.preds.pop_back(); }, "expected 0 to 1"},
      {"self edge", edges, [](OrderedRecording& r) { r.preds[0] = 1; },
       "launch 1 waits for launch 1"},
      {"later edge", edges, [](OrderedRecording& r) { r.preds[0] = 2; },
       "launch 1 waits for launch 2"},
      {"wild edge", edges, [](OrderedRecording& r) { r.preds[1] = ~0u; },
       "waits for launch 4294967295"},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.what);
    OrderedRecording r = with_levels(
        {node({write(0, 0, 8)}), node({read(0, 0, 8)}), node({write(0, 4, 6)})}, {0, 1, 2});
    r.set_preds({{}, {0}, {1}});
    ASSERT_TRUE(validate(r, damage.model).has_value());
    damage.apply(r);
    const Status status = validate(r, damage.model);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::internal);
    EXPECT_NE(status.error().message.find("malformed recording: "), std::string::npos);
    EXPECT_NE(status.error().message.find(damage.says), std::string::npos)
        << status.error().message;
    const std::vector<Violation> found = find_violations(r, damage.model, no_limit);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].first, found[0].second);
    EXPECT_EQ(describe(r, found[0], damage.model), status.error().message);
  }
}

TEST(Validate, DescribesAnyViolationOfAnyRecording) {
  const OrderedRecording r = with_levels({node({}), fence()}, {0, 1});
  EXPECT_NE(describe(r, {5, 900, 3, 1, 2, true, false, false}).find("launch 900"),
            std::string::npos);
  EXPECT_NE(describe(r, {9, 2, 0, 0, 0, false, false, false}).find("launch 9"), std::string::npos);
  EXPECT_NE(describe(OrderedRecording{}, {4, 4, 0, 0, 0, false, false, false}).find("launch 4"),
            std::string::npos);
}

TEST(Validate, NamesLaunchesThatChangedPlaces) {
  OrderedRecording r =
      with_levels({node({write(1, 0, 8)}), node({read(1, 4, 6)}), node({})}, {0, 1, 2});
  r.set_preds({{}, {0}, {1}});
  for (const auto& [first, second, third, sound] :
       {std::tuple(0u, 1u, 2u, true), {1u, 0u, 2u, false}, {1u, 2u, 0u, true}}) {
    r.launches[0].index = first;
    r.launches[1].index = second;
    r.launches[2].index = third;
    for (OrderKind model : {levels, edges, in_order}) {
      const Status status = validate(r, model);
      ASSERT_EQ(status.has_value(), sound);
      if (sound) continue;
      EXPECT_EQ(status.error().message,
                "program order not kept: launch 0 'plain' stands before launch 1 'plain', in the "
                "program behind it; both touch bytes [4, 6) of region 1");
    }
  }
}

TEST(Validate, NamesLaunchesThatPassedAFence) {
  for (const std::uint32_t wrong : {0u, 1u, 3u, 4u}) {
    OrderedRecording r =
        with_levels({node({}), node({}), fence(), node({}), node({})}, {0, 0, 1, 1, 1});
    r.set_preds({{}, {}, {0, 1}, {2}, {2}});
    for (std::uint32_t i = 0; i < 5; ++i) r.launches[i].index = 10 * i;
    for (OrderKind model : {levels, edges, in_order}) EXPECT_TRUE(validate(r, model));
    r.launches[wrong].index = wrong < 2 ? 25 : 15;
    for (OrderKind model : {levels, edges, in_order}) {
      const std::vector<Violation> found = find_violations(r, model);
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(found[0].first, std::min(wrong, 2u));
      EXPECT_EQ(found[0].second, std::max(wrong, 2u));
      EXPECT_NE(validate(r, model).error().message.find("(a fence)"), std::string::npos);
    }
  }
}

// ---- against the oracle ----

TEST(Validate, ChangedPlacesEqualTheOracle) {
  Random random(5);
  std::size_t n_violations = 0;
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(round);
    std::vector<Node> nodes = random_nodes(random);
    for (Node& x : nodes) x.fence = false;
    Correct c = make_correct(std::move(nodes));
    std::vector<RecordedLaunch>& launches = c.recording.launches;
    const std::uint32_t n = static_cast<std::uint32_t>(launches.size());
    for (std::uint32_t i = 0; i < n; ++i) launches[i].index = i;
    for (std::uint32_t swaps = 1 + pick(random, 4); swaps > 0 && n > 1; --swaps) {
      const std::uint32_t at = pick(random, n - 1);
      std::swap(launches[at].index, launches[at + 1].index);
    }
    const Oracle oracle(c.recording);
    for (OrderKind model : {levels, edges, in_order}) {
      n_violations += expect_as_oracle(c.recording, oracle, model);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(n_violations, 500u);
}

TEST(Validate, RandomOrdersEqualTheOracle) {
  Random random(1);
  std::size_t n_violations = 0, n_sound = 0;
  for (int round = 0; round < rounds(3000); ++round) {
    SCOPED_TRACE(round);
    OrderedRecording r = make_recording(random_nodes(random));
    const std::uint32_t n = static_cast<std::uint32_t>(r.launches.size());
    const Oracle oracle(r);

    std::vector<std::uint32_t> level(n, 0);
    const std::uint32_t level_odds = 1 + pick(random, 4);
    for (std::uint32_t i = 1; i < n; ++i)
      level[i] = level[i - 1] + (pick(random, level_odds) == 0 ? 1 : 0);
    r.set_levels(level);

    Preds preds(n);
    const std::uint32_t reach = 1 + pick(random, 12), n_preds = 1 + pick(random, 4);
    for (std::uint32_t i = 1; i < n; ++i) {
      for (std::uint32_t k = pick(random, n_preds + 1); k > 0; --k)
        preds[i].push_back(i - 1 - pick(random, std::min(i, reach)));
    }
    r.set_preds(preds);

    for (OrderKind model : {levels, edges, in_order}) {
      const std::size_t count = expect_as_oracle(r, oracle, model);
      n_violations += count;
      n_sound += count == 0 ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(n_violations, static_cast<std::size_t>(rounds(10000)));
  EXPECT_GT(n_sound, static_cast<std::size_t>(rounds(3000)));
}

TEST(Validate, EveryRemovedEdgeIsNamed) {
  Random random(2);
  std::size_t n_removed = 0, n_fence = 0;
  for (int round = 0; round < rounds(2000); ++round) {
    SCOPED_TRACE(round);
    Correct c = make_correct(random_nodes(random));
    const Oracle oracle(c.recording);
    ASSERT_EQ(expect_as_oracle(c.recording, oracle, edges), 0u);
    for (std::uint32_t v = 0; v < c.preds.size(); ++v) {
      for (std::size_t k = 0; k < c.preds[v].size(); ++k) {
        Preds cut = c.preds;
        const std::uint32_t u = cut[v][k];
        cut[v].erase(cut[v].begin() + static_cast<std::ptrdiff_t>(k));
        c.recording.set_preds(cut);
        SCOPED_TRACE(std::to_string(u) + " -> " + std::to_string(v));
        const bool u_fence = c.recording.launches[u].is_fence();
        const bool v_fence = c.recording.launches[v].is_fence();
        if (!u_fence && !v_fence) {
          const std::vector<Violation> one = find_violations(c.recording, edges);
          ASSERT_EQ(one.size(), 1u);
          EXPECT_EQ(one[0].first, u);
          EXPECT_EQ(one[0].second, v);
          expect_true_violation(c.recording, oracle, one[0]);
          const std::string said = validate(c.recording, edges).error().message;
          EXPECT_NE(said.find("launch " + std::to_string(u) + " 'plain'"), std::string::npos);
          EXPECT_NE(said.find("launch " + std::to_string(v) + " 'plain'"), std::string::npos);
          ++n_removed;
        } else {
          const bool reported = expect_as_oracle(c.recording, oracle, edges) != 0;
          const std::vector<Violation> one = find_violations(c.recording, edges);
          ASSERT_EQ(one.size(), reported ? 1u : 0u);
          if (reported && !u_fence) {
            EXPECT_EQ(one[0].first, u);
          }
          if (reported && !v_fence) {
            EXPECT_EQ(one[0].second, v);
          }
          n_fence += reported ? 1 : 0;
        }
        if (HasFailure()) return;
      }
    }
  }
  std::printf("removed %zu edges between dispatches, %zu to or from fences\n", n_removed, n_fence);
  EXPECT_GT(n_removed, os::sanitized ? 2000u : 20000u);
  EXPECT_GT(n_fence, os::sanitized ? 200u : 2000u);
}

TEST(Validate, EveryMergedLevelIsReported) {
  Random random(3);
  std::size_t n_merged = 0, n_single = 0;
  for (int round = 0; round < rounds(2000); ++round) {
    SCOPED_TRACE(round);
    Correct c = make_correct(random_nodes(random));
    const Oracle oracle(c.recording);
    ASSERT_EQ(expect_as_oracle(c.recording, oracle, levels), 0u);
    for (std::uint32_t merged = 0; merged < c.level.back(); ++merged) {
      std::vector<std::uint32_t> level = c.level;
      for (std::uint32_t& l : level) l -= l > merged ? 1 : 0;
      c.recording.set_levels(level);
      const std::size_t count = expect_as_oracle(c.recording, oracle, levels);
      n_merged += count != 0 ? 1 : 0;
      n_single += count == 1 ? 1 : 0;
      if (HasFailure()) return;
    }
  }
  std::printf("merged %zu levels, %zu of them with a single conflict\n", n_merged, n_single);
  EXPECT_GT(n_merged, os::sanitized ? 1000u : 10000u);
  EXPECT_GT(n_single, os::sanitized ? 200u : 2000u);
}

// More launches than one slice of reachability bits, with far and near predecessors.
TEST(Validate, LongRecordingsEqualTheOracle) {
  Random random(4);
  std::size_t found = 0;
  for (int round = 0; round < 6; ++round) {
    const std::uint32_t n = 600 + pick(random, 900);
    std::vector<Node> nodes(n);
    for (Node& x : nodes) {
      x.fence = round % 2 == 1 && pick(random, 200) == 0;
      if (!x.fence) x.ranges = {random_range(random, 4, 1), random_range(random, 4, 4)};
    }
    OrderedRecording r = make_recording(nodes);
    Preds preds(n);
    for (std::uint32_t i = 1; i < n; ++i) {
      if (pick(random, 300) != 0) preds[i].push_back(i - 1);
      preds[i].push_back(pick(random, i));
    }
    r.set_preds(preds);
    found += expect_as_oracle(r, Oracle(r), edges);
  }
  EXPECT_GT(found, 0u);  // how many depends on the standard library's random numbers
}

TEST(Validate, FindsEveryPairOfManyWriters) {
  const std::size_t n = 1600;  // more pairs than one batch holds
  const OrderedRecording r = with_preds(std::vector<Node>(n, node({write(0, 0, 1)})), Preds(n));
  EXPECT_EQ(find_violations(r, edges, no_limit).size(), n * (n - 1) / 2);
}

// ---- speed ----

// A decoder's pass: a residual stream and an arena that every layer reuses, weights and StepState
// read everywhere, a table from the start read by all layers, a KV buffer per layer.
std::vector<Node> decoder_nodes(std::uint32_t n_layers, std::uint32_t per_layer) {
  constexpr std::uint64_t arena = 1, residual = 2, step = 3, tables = 4, kv = 1000,
                          weights = 1u << 20;
  constexpr std::uint64_t slot = 4096, scratch = 128 * 1024;
  Random random(5);
  std::vector<Node> nodes{node({read(step, 0, 64), write(tables, 0, 8192)}),
                          node({read(step, 0, 64), write(residual, 0, slot)})};
  for (std::uint32_t layer = 0; layer < n_layers; ++layer) {
    for (std::uint32_t k = 0; k < per_layer; ++k) {
      // Three launches in a row read the same input and write a slot each.
      const std::uint64_t position = std::uint64_t{layer} * per_layer + k + 13;
      const std::uint64_t out = 2 * slot * (position % 13);
      const std::uint64_t in = 2 * slot * ((position - 1 - k % 3) % 13);
      Node x = node({read(weights + std::uint64_t{layer} * per_layer + k, 0, 1u << 24)});
      x.ranges.push_back(read(arena, in, in + slot / (1 + pick(random, 2))));
      x.ranges.push_back(write(arena, out, out + slot * (1 + pick(random, 2))));
      x.ranges.push_back(write(arena, scratch + 256 * (k % 8), scratch + 256 * (k % 8 + 1)));
      if (k % 8 == 1) x.ranges.push_back(read(step, 0, 64));
      if (k % 8 == 2) x.ranges.push_back(read(tables, 0, 8192));
      if (k % 16 == 3) x.ranges.push_back(write(kv + layer, 512, 1024));
      if (k % 16 == 4) x.ranges.push_back(read(kv + layer, 0, 4096));
      if (k % 10 == 0) x.ranges.push_back(read(residual, 0, slot));
      if (k % 10 == 9) {
        x.ranges.push_back(read(residual, 0, slot));
        x.ranges.push_back(write(residual, 0, slot));
      }
      nodes.push_back(std::move(x));
    }
  }
  nodes.push_back(node({read(residual, 0, slot), write(step, 0, 64)}));
  return nodes;
}

// Edges from the last accesses of each 128-byte cell, levels by longest path, list in level order.
OrderedRecording make_plan(std::vector<Node> nodes) {
  struct Cell {
    std::uint32_t writer = ~0u;
    std::vector<std::uint32_t> readers;
  };
  const auto predecessors = [](const std::vector<Node>& list) {
    std::map<std::uint64_t, std::vector<Cell>> memory;
    Preds preds(list.size());
    for (std::uint32_t i = 0; i < list.size(); ++i) {
      std::set<std::uint32_t> before;
      for (const PhysicalRange& p : list[i].ranges) {
        if (p.region >= 1u << 20) continue;  // weights
        std::vector<Cell>& cells = memory[p.region];
        if (cells.size() < p.hi / 128 + 1) cells.resize(p.hi / 128 + 1);
        for (std::uint64_t c = p.lo / 128; c < (p.hi + 127) / 128; ++c) {
          if (cells[c].writer != ~0u) before.insert(cells[c].writer);
          if (p.write) before.insert(cells[c].readers.begin(), cells[c].readers.end());
        }
      }
      for (const PhysicalRange& p : list[i].ranges) {
        if (p.region >= 1u << 20) continue;
        for (std::uint64_t c = p.lo / 128; c < (p.hi + 127) / 128; ++c) {
          Cell& cell = memory[p.region][c];
          if (p.write) {
            cell = Cell{i, {}};
          } else if (cell.writer != i) {
            cell.readers.push_back(i);
          }
        }
      }
      before.erase(i);
      preds[i].assign(before.begin(), before.end());
    }
    return preds;
  };
  const Preds draft = predecessors(nodes);
  std::vector<std::uint32_t> level(nodes.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (std::uint32_t p : draft[i]) level[i] = std::max(level[i], level[p] + 1);
  }
  std::vector<std::size_t> order(nodes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return level[a] < level[b]; });
  std::vector<Node> sorted;
  std::vector<std::uint32_t> sorted_level;
  for (std::size_t i : order) {
    sorted.push_back(std::move(nodes[i]));
    sorted_level.push_back(level[i]);
  }
  OrderedRecording r = make_recording(sorted);
  r.set_levels(sorted_level);
  r.set_preds(predecessors(sorted));
  return r;
}

double best_ms(const OrderedRecording& r, OrderKind model, int repeats) {
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(validate(r, model).has_value());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  return best;
}

TEST(Validate, DecoderPlansAreQuick) {
  struct Size {
    std::uint32_t n_layers, per_layer;
    int repeats;
    double limit_ms;
  };
  for (const Size size : {Size{32, 20, 9, 50}, Size{48, 42, 9, 50}, Size{2400, 42, 1, 30000}}) {
    if (os::sanitized && size.n_layers > 1000) continue;
    OrderedRecording r = make_plan(decoder_nodes(size.n_layers, size.per_layer));
    const double by_levels = best_ms(r, levels, size.repeats);
    const double by_edges = best_ms(r, edges, size.repeats);
    std::printf("%zu launches, %zu ranges, %zu edges, %u levels: levels %.2f ms, edges %.2f ms\n",
                r.launches.size(), r.ranges.size(), r.preds.size(), r.n_levels(), by_levels,
                by_edges);
    EXPECT_LE(by_levels, size.limit_ms * (os::sanitized ? 50 : 1));
    EXPECT_LE(by_edges, size.limit_ms * (os::sanitized ? 50 : 1));

    // The sampler waits for nothing: it overwrites StepState that others still read.
    const std::size_t last = r.launches.size() - 1;
    r.preds.resize(r.pred_offsets[last]);
    r.pred_offsets.back() = r.pred_offsets[last];
    const std::vector<Violation> found = find_violations(r, edges);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].second, last);
  }
}

}  // namespace
}  // namespace onepass::graph::validate_test
