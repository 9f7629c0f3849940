// The one hazard rule: read-read is free; RAW, WAR and WAW on overlapping bytes order two nodes.
#pragma once

#include <cstddef>

#include "graph/program.h"

namespace onepass::graph {

// Storage reused between calls: after warm-up dependencies() allocates nothing beyond the result's
// growth.
class HazardWorkspace {
 public:
  HazardWorkspace();
  ~HazardWorkspace();
  HazardWorkspace(HazardWorkspace&&) noexcept;
  HazardWorkspace& operator=(HazardWorkspace&&) noexcept;

 private:
  friend void dependencies(const Program&, HazardWorkspace&, Dag&);
  struct State;
  State* state_;
};

// Complete for any size; levels always exact; transitively reduced, with ancestors, up to max_exact
// nodes.
void dependencies(const Program& program, HazardWorkspace& workspace, Dag& out);

// Tracks the group of dispatches since the last barrier: would this one conflict with it?
class GroupTracker {
 public:
  // Always true behind an opaque dispatch.
  bool conflicts(std::span<const Range> ranges) const noexcept;
  void add(std::span<const Range> ranges);  // one dispatch, also one without ranges
  // An opaque dispatch conflicts with everything in the group and everything after it.
  void add_opaque() noexcept { opaque_ = true; }
  bool is_opaque() const noexcept { return opaque_; }
  void reset() noexcept;
  // Ranges added, empty ones not counted.
  std::size_t size() const noexcept { return n_ranges_; }
  // No dispatch was added.
  bool empty() const noexcept { return empty_ && !opaque_; }

 private:
  // Unions of ranges: sorted by region and lo, disjoint, never adjacent. written_ is a subset of
  // touched_.
  std::vector<Range> touched_, written_;
  std::size_t n_ranges_ = 0;
  bool empty_ = true, opaque_ = false;
};

}  // namespace onepass::graph
