// Placement of scratch in one arena, along the DAG.
#pragma once

#include <vector>

#include "graph/program.h"

namespace onepass::graph {

struct ScratchItem {
  std::uint64_t bytes = 0;
  std::uint32_t region = 0;  // of the program: all nodes that touch it count
};

struct Placement {
  std::vector<std::uint64_t> offsets;  // per item, multiples of `alignment`
  std::uint64_t arena_bytes = 0;
  std::uint64_t unaliased_bytes = 0;  // sum of aligned sizes of the items somebody touches
};

// Bytes of one item serve another only if every node that touches the first is an ancestor of
// every node that touches the second, so aliasing adds no edge for any executor. Items nobody
// touches get no bytes (offset 0). Without dag.ancestors, or with alias = false, every item has its
// own bytes. An opaque node may touch any item, so it keeps all of them apart, too.
Placement place_scratch(const Program& program, const Dag& dag, std::span<const ScratchItem> items,
                        std::uint64_t alignment, bool alias);

}  // namespace onepass::graph
