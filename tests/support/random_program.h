// Seeded random programs: sub-ranges, adjacent ranges, in-place nodes, fences, opaque nodes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "program_builder.h"
#include "random.h"

namespace onepass::test {

struct RandomProgramOptions {
  std::uint32_t min_nodes = 8, max_nodes = 64;
  std::uint32_t min_regions = 1, max_regions = 12;
  std::uint32_t max_region_bytes = 64;
  std::uint32_t max_ranges = 4;  // per node; some nodes have none
  std::uint32_t fence_percent = 3, opaque_percent = 2;
  std::uint32_t in_place_percent = 20;
  bool scratch = false;  // about two of three regions are scratch
};

inline Bytes random_bytes(Random& random, Bytes whole, const std::vector<Bytes>& earlier) {
  const auto size = static_cast<std::uint32_t>(whole.hi);
  switch (random.in(0, 3)) {
    case 0:
      return whole;
    case 1: {  // cells of a fixed grid: equal or adjacent, never partly overlapping
      const std::uint32_t cell = std::max(1u, size / 4);
      const std::uint32_t at = random.in(0, (size - 1) / cell) * cell;
      return {whole.region, at, std::min(at + cell, size)};
    }
    case 2:  // directly behind an earlier range of the same region
      for (auto it = earlier.rbegin(); it != earlier.rend(); ++it) {
        if (it->region != whole.region || it->hi >= whole.hi) continue;
        return {whole.region, it->hi, random.in(static_cast<std::uint32_t>(it->hi) + 1, size)};
      }
      [[fallthrough]];
    default: {
      const std::uint32_t lo = random.in(0, size - 1);
      return {whole.region, lo, random.in(lo, size)};  // now and then empty
    }
  }
}

inline ProgramBuilder random_program(std::uint64_t seed, const RandomProgramOptions& options = {}) {
  Random random(seed);
  ProgramBuilder builder;
  std::vector<Bytes> regions, earlier;
  const std::uint32_t n_regions = random.in(options.min_regions, options.max_regions);
  for (std::uint32_t r = 0; r < n_regions; ++r) {
    const std::uint32_t bytes = random.in(1, options.max_region_bytes);
    const bool scratch = options.scratch && random.percent(67);
    regions.push_back(scratch ? builder.scratch(bytes) : builder.buffer(bytes));
  }
  const std::uint32_t write_percent = random.in(10, 70);
  const std::uint32_t n_nodes = random.in(options.min_nodes, options.max_nodes);
  for (std::uint32_t node = 0; node < n_nodes; ++node) {
    if (random.percent(options.fence_percent)) {
      builder.fence();
      continue;
    }
    if (random.percent(options.opaque_percent)) {
      builder.opaque();
      continue;
    }
    for (std::uint32_t left = random.in(0, options.max_ranges); left > 0; --left) {
      const Bytes b = random_bytes(random, regions[random.in(0, n_regions - 1)], earlier);
      const bool in_place = random.percent(options.in_place_percent);
      const bool write = in_place || random.percent(write_percent);
      builder.add_range(b, write);
      if (in_place) builder.add_range(b, false);
      earlier.push_back(b);
    }
    builder.close(graph::NodeKind::dispatch, random.percent(85));
  }
  return builder;
}

}  // namespace onepass::test
