// A table that is larger than one binding: a launch for each range of its rows.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "core/launch_list.h"
#include "onepass/device.h"

namespace onepass::ops {

// Views 0, 1, ... are the table's: `strides` bytes of each for `unit` rows that lie together.
// Params has first_row and bound_rows; a launch takes what its own rows are asked for.
template <class Params>
void split_table(const DeviceInfo& device, const Dispatch& d, std::uint32_t table_rows,
                 std::uint32_t unit, std::initializer_list<std::uint64_t> strides,
                 LaunchList& launches) {
  if (d.views[0].bytes <= device.max_binding_bytes) return;
  const std::uint64_t fit =
      device.max_binding_bytes / std::max<std::uint64_t>(*strides.begin(), 1) * unit;
  const auto rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(fit, table_rows));
  if (rows == 0) return;
  for (std::uint32_t first = 0; first < table_rows; first += rows) {
    Params params = d.params_as<Params>();
    params.first_row = first;
    params.bound_rows = std::min(rows, table_rows - first);
    const std::uint64_t units = params.bound_rows / unit + (params.bound_rows % unit != 0 ? 1 : 0);
    Dispatch part = d;
    part.set_params(params);
    std::size_t v = 0;
    for (const std::uint64_t stride : strides) {
      part.views[v].offset += first / unit * stride;
      part.views[v].bytes = units * stride;
      ++v;
    }
    launches.add(part);
  }
}

}  // namespace onepass::ops
