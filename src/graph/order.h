// The one place where the order of a recording's launches is chosen.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/backend.h"
#include "core/order.h"

namespace onepass::graph {

// What every order has to keep: the launches that launch v has to wait for, by position, less than
// v and ascending, without those that follow from others.
struct Dependencies {
  std::vector<std::uint32_t> offsets;  // launches + 1
  std::vector<std::uint32_t> preds;

  std::span<const std::uint32_t> of(std::uint32_t v) const noexcept {
    return std::span(preds).subspan(offsets[v], offsets[v + 1] - offsets[v]);
  }
};

// Kind levels, from the launches' own.
Order order_by_levels(const Recording& recording);
// Kind edges, all of them full.
Order order_by_edges(const Dependencies& dependencies);

// The order that suits the device:
// - serial: in order;
// - devices with barriers between levels: levels;
// - devices with edges: the dependencies, where the device has programmatic edges weakened to them,
//   and, where it paces full launches, one more edge between two launches in a row of which one
//   fills the device: they gain nothing from running side by side, and the edge can be
//   programmatic. What comes before the new predecessor needs no edge of its own.
// Of several edges into a launch only the one from the nearest is programmatic: with two the launch
// starts as late as with full ones. Timed recordings have none, and neither have passes of many
// rows, where kernels that start early cost more than they gain.
Order choose_order(const Recording& recording, const Dependencies& dependencies,
                   const DeviceInfo& device, bool serial);

}  // namespace onepass::graph
