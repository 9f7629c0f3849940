// From a list in its final order to what a backend runs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/device_state.h"
#include "graph/hazards.h"
#include "graph/nodes.h"

namespace onepass::graph {

// Launches in program order with their accesses: what lower makes of a list.
struct Lowered {
  struct Item {
    std::uint32_t node = 0;             // of the list; fences too
    const KernelRow* kernel = nullptr;  // null: fence
    Launch launch;
    std::uint32_t scratch = ~0u;                   // index of `workspace`
    std::uint64_t persistent = ~std::uint64_t{0};  // offset in the persistent block
  };
  std::vector<Item> items;
  std::vector<NodeKind> kinds;
  std::vector<std::uint32_t> range_offsets;
  std::vector<Range> ranges;             // regions of the list, then one per workspace
  std::vector<std::uint64_t> workspace;  // bytes
  std::uint64_t persistent_bytes = 0;
  std::uint32_t n_list_regions = 0;

  Program program() const noexcept {
    return {kinds, range_offsets, ranges,
            n_list_regions + static_cast<std::uint32_t>(workspace.size())};
  }
};

// Asks every dispatch's kernel row for its launch and checks it against the device's limits.
// `order`: nodes of the list (no barriers). With fence_opaque, a dispatch of unknown accesses gets
// a fence before and after it, so that its order can be proven.
Result<Lowered> lower(const NodeList& list, std::span<const std::uint32_t> order,
                      bool fence_opaque);

struct PlacedMemory {
  std::vector<std::shared_ptr<ArenaBlock>> blocks;
  std::vector<BoundView> workspace;  // per Lowered::workspace
  std::vector<PhysicalRange> workspace_ranges;
  BoundView persistent;
  std::uint64_t persistent_region = 0;
  std::uint64_t arena_bytes = 0, unaliased_bytes = 0;
};

// A larger arena shared between plans, or none.
struct ArenaSource {
  std::shared_ptr<ArenaBlock>* shared = nullptr;
};

// Gives every scratch item that has no bytes yet, and every workspace, a place. dag may be null:
// then nothing is aliased. Sets the tables of the list.
Result<PlacedMemory> place(const NodeList& list, const Lowered& lowered, const Dag* dag,
                           const ArenaSource& source);

// The recording without its order: launches, views, params, ranges, in the order of `sequence`
// (indices of lowered.items).
void fill_recording(const NodeList& list, const Lowered& lowered, const PlacedMemory& memory,
                    std::span<const std::uint32_t> sequence, Recording& out);

// What a recording points into besides buffers: extras and scratch tables.
std::shared_ptr<void> keep_alive(const NodeList& list);

// A pass that runs the list's nodes in recorded order, in groups between its barriers and fences.
// Used by direct encoders and by finish. The caller hands the list's buffers to pass->retained.
struct GroupedPass {
  std::shared_ptr<RecordedPass> pass;
  std::uint32_t barriers = 0;
  std::array<std::uint32_t, 8> group_sizes{};
};
Result<GroupedPass> build_grouped(NodeList& list, bool validate_order);

}  // namespace onepass::graph
