// Callers' views as ranges of one tracker.
#pragma once

#include <span>
#include <vector>

#include "core/device_state.h"
#include "graph/program.h"

namespace onepass::graph {

// Appends the bytes of the views. Imported host memory is one region, by address, so that two
// imports of the same bytes are known to overlap.
Status append_ranges(DeviceState& device, std::span<const View> views, bool write,
                     std::vector<Range>& out);

}  // namespace onepass::graph
