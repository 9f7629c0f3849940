// The hazard rule byte by byte, for programs of up to 256 nodes.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <vector>

#include "graph/program.h"

namespace onepass::test {

using BitRows = std::vector<std::bitset<256>>;

// conflict[j][i], i < j: node j must come behind node i.
inline BitRows bitmap_conflicts(const graph::Program& program) {
  const std::uint32_t n = program.size();
  std::vector<std::uint64_t> ends(program.n_regions, 0);
  for (const graph::Range& r : program.ranges) ends[r.region] = std::max(ends[r.region], r.hi);
  std::vector<std::uint64_t> base(std::size_t{program.n_regions} + 1, 0);
  for (std::uint32_t r = 0; r < program.n_regions; ++r) base[r + 1] = base[r] + ends[r];

  // One bit per byte.
  const std::size_t words = base.back() / 64 + 1;
  std::vector<std::vector<std::uint64_t>> reads(n), writes(n);
  for (std::uint32_t node = 0; node < n; ++node) {
    reads[node].assign(words, 0);
    writes[node].assign(words, 0);
    for (const graph::Range& r : program.ranges_of(node)) {
      auto& bytes = r.write ? writes[node] : reads[node];
      for (std::uint64_t b = base[r.region] + r.lo; b < base[r.region] + r.hi; ++b) {
        bytes[b / 64] |= std::uint64_t{1} << (b % 64);
      }
    }
  }
  BitRows conflict(n);
  for (std::uint32_t j = 0; j < n; ++j) {
    for (std::uint32_t i = 0; i < j; ++i) {
      std::uint64_t common = 0;
      for (std::size_t w = 0; w < words; ++w) {
        common |= (writes[i][w] & (reads[j][w] | writes[j][w])) | (reads[i][w] & writes[j][w]);
      }
      conflict[j][i] = common != 0 || program.kinds[i] != graph::NodeKind::dispatch ||
                       program.kinds[j] != graph::NodeKind::dispatch;
    }
  }
  return conflict;
}

// Edges point to smaller numbers: edges[j][i] only for i < j.
inline BitRows transitive_closure(const BitRows& edges) {
  BitRows closure = edges;
  for (std::size_t j = 0; j < closure.size(); ++j) {
    for (std::size_t i = j; i-- > 0;) {
      if (closure[j][i]) closure[j] |= closure[i];
    }
  }
  return closure;
}

inline BitRows edges_of(const graph::Dag& dag) {
  BitRows edges(dag.size());
  for (std::uint32_t j = 0; j < dag.size(); ++j) {
    for (const std::uint32_t i : dag.preds_of(j)) edges[j][i] = true;
  }
  return edges;
}

}  // namespace onepass::test
