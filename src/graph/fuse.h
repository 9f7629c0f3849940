// Rows of fusions.def applied to a list.
#pragma once

#include <memory>

#include "graph/nodes.h"

namespace onepass::graph {

struct Fused {
  std::unique_ptr<NodeList> list;  // null: nothing fired, the list stays as it is
  FuseReport report;
};

// A pair fuses when the intermediate is scratch or discarded, its only consumer is the second
// dispatch through an equal view, no fence stands between them, nothing between them writes what
// the first one reads, the output overlaps no other operand in part, and the device has the kernel.
Result<Fused> fuse(const NodeList& list, bool close);

}  // namespace onepass::graph
