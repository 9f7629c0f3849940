// Schedules of random passes that can be made wrong on purpose: small trackers of the test's own,
// the truth byte by byte, and a guard that finds undeclared accesses.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/backend.h"
#include "onepass/plan.h"
#include "property/bench.h"
#include "support/bitmap_oracle.h"
#include "support/ordered_recording.h"

namespace onepass::property {

using test::BitRows;
using testing::OrderedRecording;

// One access of a dispatch as a tracker sees it.
struct Touch {
  std::uint32_t region = 0;
  std::int32_t lo = 0, hi = 0;
  std::int32_t base = 0;  // where the buffer begins in its region
  bool read = false, write = false;
};
using Touches = std::vector<std::vector<Touch>>;  // per dispatch, in program order

// What a tracker takes for a conflict. The defaults are the rule.
struct Rule {
  bool adjacent_conflicts = false;  // `<=` for `<`
  bool one_byte_is_none = false;    // `<` for `<=` of the last byte
  bool ignore_offset = false;
  bool skip_war = false, skip_waw = false;
  bool conflict(const Touch& a, const Touch& b) const;
};
BitRows find_conflicts(const Touches& touches, const Rule& rule);

// An order of the dispatches 0 .. n - 1.
struct Schedule {
  OrderKind model = OrderKind::levels;
  std::vector<std::uint32_t> order;  // position to dispatch
  std::vector<std::uint32_t> level;  // by position, ascending
  BitRows preds;                     // by dispatch; model edges
};
// Recorded order, a barrier wherever a dispatch conflicts with its group. With reset_at, the
// tracker forgets everything in front of that dispatch without a barrier.
Schedule in_groups(const BitRows& conflicts, std::uint32_t reset_at = ~0u);
Schedule in_groups(const BitRows& conflicts, const std::vector<std::uint32_t>& order);
// The reduced graph of the conflicts, sorted by level.
Schedule by_edges(const BitRows& conflicts);
// A greedy window of 64; keep_skipped = false forgets what it jumped over.
std::vector<std::uint32_t> greedy(const BitRows& conflicts, bool keep_skipped);

// Two dispatches that conflict in truth are unordered or changed places.
bool breaks(const Schedule& schedule, const BitRows& truth);
bool same_closure(const BitRows& a, const BitRows& b);

// A pass without fences, compiled without aliasing, and what its dispatches really touch.
struct Case {
  Bench& bench;
  const GraphSpec& graph;
  Outcome expected;
  Plan plan;
  OrderedRecording program;  // in program order, without levels and edges
  Touches touches;
  BitRows truth;

  std::uint32_t size() const { return static_cast<std::uint32_t>(touches.size()); }
};
// The graph must outlive the case.
std::optional<Case> make_case(Bench& bench, const GraphSpec& graph);
GraphOptions case_options();

OrderedRecording make_recording(const OrderedRecording& program, const Schedule& schedule);
// An edge between launches whose ranges do not conflict: more order than the bytes demand.
bool has_needless_edge(const OrderedRecording& recording);
// Whether any of a few adversarial orders changes bytes or inputs.
bool shuffling_shows(Case& c, const OrderedRecording& recording, std::uint64_t seed);

// Runs launch i of c.program on memory where every byte outside its declared accesses is poison,
// twice, with different poison. True if it read or wrote a byte it did not declare.
bool guard_reports(Case& c, std::uint32_t i, const std::vector<Touch>& declared);
// The same by arithmetic: an operand's byte that no declared access covers.
bool is_undeclared(const std::vector<Touch>& real, const std::vector<Touch>& declared);

}  // namespace onepass::property
