// The shape of a recorded pass as the graph passes see it: dispatches as lists of byte ranges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/bit_matrix.h"

namespace onepass::graph {

// Half-open. Regions are dense indices: two ranges can only overlap within one region. Ranges of
// immutable memory and empty ranges are left out by whoever builds the program.
struct Range {
  std::uint64_t lo = 0, hi = 0;
  std::uint32_t region = 0;
  bool write = false;
};

enum class NodeKind : std::uint8_t {
  dispatch,
  fence,   // order point of weight 0 between everything before and after
  opaque,  // a dispatch with unknown accesses: conflicts with every other node
};

// Nodes in recorded order. Ranges of node i: ranges[range_offsets[i] .. range_offsets[i + 1]).
struct Program {
  std::span<const NodeKind> kinds;
  std::span<const std::uint32_t> range_offsets;
  std::span<const Range> ranges;
  std::uint32_t n_regions = 0;

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(kinds.size()); }
  std::span<const Range> ranges_of(std::uint32_t i) const noexcept {
    return ranges.subspan(range_offsets[i], range_offsets[i + 1] - range_offsets[i]);
  }
};

// The exact dependency graph of a program.
struct Dag {
  std::vector<std::uint32_t> pred_offsets;  // size() + 1
  std::vector<std::uint32_t> preds;         // ascending per node; reduced where exact
  std::vector<std::uint32_t> level;         // of dispatches: longest path, from 0; see below
  std::uint32_t n_levels = 0;               // barriers of the level schedule = n_levels - 1
  std::uint32_t edges_found = 0;            // before reduction
  bool reduced = false;                     // no edge follows from others
  BitMatrix ancestors;  // row i: of node i, all < i; empty above max_exact nodes

  // A fence's level is the number of levels that lie before it: dispatches after it have at least
  // that level, those before it a smaller one.
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(level.size()); }
  std::span<const std::uint32_t> preds_of(std::uint32_t i) const noexcept {
    return {preds.data() + pred_offsets[i], pred_offsets[i + 1] - pred_offsets[i]};
  }
};

inline constexpr std::uint32_t max_exact = 8192;

}  // namespace onepass::graph
