// What a device makes of a recorded list: products get their input in the form that its kernel
// takes, and rows of fusions.def are applied.
#pragma once

#include "core/tables.h"
#include "graph/lower.h"
#include "graph/nodes.h"

namespace onepass::graph {

// Where a product's kernel takes view 0 in another form than it was recorded with, a conversion
// goes in front. Then, row by row, two dispatches become one at the place of the second when
// - no fence and no dispatch of unknown accesses stands between them;
// - nothing between them writes what the first reads or touches what it writes;
// - chain: every output of the first that the second reads has the second as its only reader,
//   through equal views, and is seen by nobody after the pass: it is scratch, discarded, or
//   overwritten whole later in the pass. The second touches no other output of the first, or,
//   chain_keeping, reads it through an equal view;
// - the fused dispatch writes exactly what both wrote, less what vanished, and reads no more than
//   they read;
// - an output of the fused dispatch overlaps an input only where in_place of the row allows it;
// - the device has a kernel that accepts it, and launches it within its limits.
// The list is rewritten; an error changes nothing but its tables. made: launches of the dispatches
// that are two recorded ones.
Result<FuseReport> fuse(NodeList& list, bool close, std::span<const FusionRow> rows,
                        MadeLaunches* made = nullptr);
inline Result<FuseReport> fuse(NodeList& list, bool close) {
  return fuse(list, close, fusion_rows());
}

}  // namespace onepass::graph
