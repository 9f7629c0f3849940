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

// Tracks the bytes of the dispatches since the last barrier: would this one conflict with them? A
// dispatch without ranges leaves no trace here; who needs to know whether the group is empty when
// an opaque dispatch comes counts dispatches.
class GroupTracker {
 public:
  // Always true behind an opaque dispatch.
  bool conflicts(std::span<const Range> ranges) const noexcept;
  void add(std::span<const Range> ranges);
  // An opaque dispatch conflicts with everything in the group and everything after it.
  void add_opaque() noexcept { opaque_ = true; }
  bool is_opaque() const noexcept { return opaque_; }
  void reset() noexcept;
  // Separate stretches of touched bytes, not dispatches.
  std::size_t size() const noexcept { return touched_.size(); }
  bool empty() const noexcept { return touched_.empty() && !opaque_; }

 private:
  // Unions of ranges: sorted by region and lo, disjoint, never adjacent. written_ is a subset of
  // touched_.
  std::vector<Range> touched_, written_;
  bool opaque_ = false;
};

}  // namespace onepass::graph
