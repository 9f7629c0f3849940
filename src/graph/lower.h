// From a list to the launches of a device.
#pragma once

#include <span>
#include <vector>

#include "core/device_state.h"
#include "core/launch_list.h"
#include "graph/nodes.h"
#include "graph/program.h"

namespace onepass::graph {

// Launches in recorded order with their accesses.
struct Lowered {
  struct Item {
    std::uint32_t node = 0;             // of the list; fences too
    std::uint32_t part = ~0u;           // index of `parts`; ~0: the node's dispatch as it is
    const KernelRow* kernel = nullptr;  // null: fence
    Launch launch;
    std::uint32_t scratch = ~0u;                   // index of `workspace`
    std::uint64_t persistent = ~std::uint64_t{0};  // offset in the persistent block
    bool behind_barrier = false;                   // a recorded barrier stands in front
  };
  std::vector<Item> items;
  std::vector<Dispatch> parts;  // of dispatches that became several launches
  std::vector<NodeKind> kinds;
  std::vector<std::uint32_t> range_offsets;
  std::vector<Range> ranges;             // regions of the list, then one per workspace
  std::vector<std::uint64_t> workspace;  // bytes
  std::uint64_t persistent_bytes = 0;
  std::uint32_t n_list_regions = 0;

  std::span<const Range> ranges_of(std::uint32_t i) const noexcept {
    return std::span(ranges).subspan(range_offsets[i], range_offsets[i + 1] - range_offsets[i]);
  }
  // What an item launches; not of fences.
  Dispatch dispatch(const NodeList& list, const Item& item) const {
    return item.part == ~0u ? list.dispatch(item.node) : parts[item.part];
  }
  // The index of `workspace` that a view of a part lies in, ~0: none.
  static std::uint32_t workspace_of(const View& view) noexcept {
    return view.buffer.generation == between_launches ? view.buffer.index : ~0u;
  }
  Program program() const noexcept {
    return {kinds, range_offsets, ranges,
            n_list_regions + static_cast<std::uint32_t>(workspace.size())};
  }
};

// Launches that fusing has asked for, by node of the list that it left.
struct MadeLaunches {
  struct Made {
    const KernelRow* kernel = nullptr;
    Launch launch;
  };
  std::vector<Made> all;
  std::vector<std::uint32_t> of_node;  // index of `all`; ~0: not asked for

  const Made* of(std::uint32_t node) const noexcept {
    return node < of_node.size() && of_node[node] != ~0u ? &all[of_node[node]] : nullptr;
  }
};

// What a row makes of a dispatch in one launch; an error where it declines or the device's limits
// do not allow it.
Status launch_of(const DeviceState& device, const KernelRow& row, const Dispatch& d,
                 Launch& launch);

// Asks every dispatch's kernel row for its launch, unless it is made already, and checks it against
// the device's limits. A
// dispatch of unknown accesses gets a fence before and after it, so that its order can be proven.
Result<Lowered> lower(const NodeList& list, const MadeLaunches& made = {});

}  // namespace onepass::graph
