// Owns the arrays of a graph::Program and grows them node by node.
#pragma once

#include <initializer_list>
#include <vector>

#include "graph/hazards.h"
#include "graph/memory.h"
#include "graph/program.h"

namespace onepass::test {

struct Bytes {
  std::uint32_t region = 0;
  std::uint64_t lo = 0, hi = 0;
};

class ProgramBuilder {
 public:
  // Scratch regions are also items for place_scratch.
  Bytes scratch(std::uint64_t bytes) {
    items_.push_back({bytes, n_regions()});
    return buffer(bytes);
  }
  Bytes buffer(std::uint64_t bytes) {
    region_bytes_.push_back(bytes);
    return {n_regions() - 1, 0, bytes};
  }

  std::uint32_t dispatch(std::initializer_list<Bytes> reads, std::initializer_list<Bytes> writes,
                         bool movable = true) {
    for (const Bytes& b : reads) add_range(b, false);
    for (const Bytes& b : writes) add_range(b, true);
    return close(graph::NodeKind::dispatch, movable);
  }
  std::uint32_t fence() { return close(graph::NodeKind::fence, false); }
  std::uint32_t opaque() { return close(graph::NodeKind::opaque, false); }

  // For nodes of many ranges: add_range any number of times, then close.
  void add_range(const Bytes& b, bool write) { ranges_.push_back({b.lo, b.hi, b.region, write}); }
  std::uint32_t close(graph::NodeKind kind, bool movable) {
    kinds_.push_back(kind);
    movable_.push_back(movable ? 1 : 0);
    offsets_.push_back(static_cast<std::uint32_t>(ranges_.size()));
    return static_cast<std::uint32_t>(kinds_.size() - 1);
  }

  // Valid until the builder changes.
  graph::Program program() const { return {kinds_, offsets_, ranges_, n_regions()}; }
  std::uint32_t n_regions() const { return static_cast<std::uint32_t>(region_bytes_.size()); }
  const std::vector<std::uint8_t>& movable() const { return movable_; }
  const std::vector<std::uint64_t>& region_bytes() const { return region_bytes_; }
  const std::vector<graph::ScratchItem>& items() const { return items_; }

 private:
  std::vector<graph::NodeKind> kinds_;
  std::vector<std::uint32_t> offsets_{0};
  std::vector<graph::Range> ranges_;
  std::vector<std::uint8_t> movable_;
  std::vector<std::uint64_t> region_bytes_;
  std::vector<graph::ScratchItem> items_;
};

// `copies` passes recorded one behind the other: scratch is new in each, other buffers are common.
inline ProgramBuilder repeat(const ProgramBuilder& one, std::uint32_t copies) {
  ProgramBuilder all;
  const graph::Program program = one.program();
  std::vector<std::uint8_t> is_scratch(one.n_regions(), 0);
  for (const auto& item : one.items()) is_scratch[item.region] = 1;
  std::vector<std::uint32_t> region(one.n_regions());
  for (std::uint32_t copy = 0; copy < copies; ++copy) {
    for (std::uint32_t r = 0; r < one.n_regions(); ++r) {
      const std::uint64_t bytes = one.region_bytes()[r];
      if (is_scratch[r] != 0) {
        region[r] = all.scratch(bytes).region;
      } else if (copy == 0) {
        region[r] = all.buffer(bytes).region;
      }
    }
    for (std::uint32_t node = 0; node < program.size(); ++node) {
      for (const graph::Range& r : program.ranges_of(node)) {
        all.add_range({region[r.region], r.lo, r.hi}, r.write);
      }
      all.close(program.kinds[node], one.movable()[node] != 0);
    }
  }
  return all;
}

// The same nodes with scratch regions as parts of one arena region.
inline ProgramBuilder on_physical_ranges(const ProgramBuilder& builder,
                                         const graph::Placement& placement) {
  ProgramBuilder out;
  for (const std::uint64_t bytes : builder.region_bytes()) out.buffer(bytes);
  const Bytes arena = out.buffer(placement.arena_bytes);
  std::vector<Bytes> base(builder.n_regions());
  for (std::uint32_t r = 0; r < base.size(); ++r) base[r].region = r;
  for (std::size_t i = 0; i < builder.items().size(); ++i) {
    base[builder.items()[i].region] = {arena.region, placement.offsets[i], 0};
  }
  const graph::Program program = builder.program();
  for (std::uint32_t node = 0; node < program.size(); ++node) {
    for (const graph::Range& r : program.ranges_of(node)) {
      const Bytes& b = base[r.region];
      out.add_range({b.region, b.lo + r.lo, b.lo + r.hi}, r.write);
    }
    out.close(program.kinds[node], builder.movable()[node] != 0);
  }
  return out;
}

inline graph::Dag dependencies_of(const graph::Program& program) {
  graph::HazardWorkspace workspace;
  graph::Dag dag;
  graph::dependencies(program, workspace, dag);
  return dag;
}

}  // namespace onepass::test
