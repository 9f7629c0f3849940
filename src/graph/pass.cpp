#include "graph/pass.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "graph/memory.h"
#include "graph/validate.h"

namespace onepass::graph {
namespace {

std::uint64_t align_up(std::uint64_t n) {
  return (n + buffer_alignment - 1) / buffer_alignment * buffer_alignment;
}

// Without a launch function: one tile per group, groups counted over all dimensions.
Status default_launch(const Dispatch& d, Launch& l) {
  const auto groups = d.grid.group_counts();
  std::uint64_t tiles = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    l.grid[i] = groups[i];
    l.group[i] = d.grid.group[i];
    tiles *= groups[i];
    if (tiles > 0xffffffffu) {
      return fail(ErrorCode::invalid_argument, "the grid has more than 2^32 groups", d.file,
                  d.line);
    }
  }
  l.tiles = static_cast<std::uint32_t>(tiles);
  if (d.extra != nullptr) {
    std::uint64_t shared = 0;
    for (const DispatchExtra::Shared& s : d.extra->shared) shared += s.bytes;
    l.shared_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(shared, 0xffffffffu));
  }
  return {};
}

Status check_launch(const DeviceInfo& device, const NodeList& list, const Dispatch& d,
                    const Launch& l) {
  const std::uint64_t threads = std::uint64_t{l.group[0]} * l.group[1] * l.group[2];
  const char* name = dispatch_name(list.device(), d.op, d.kernel);
  if (threads == 0 || threads > device.max_group_threads) {
    return fail(ErrorCode::limit,
                std::string(name) + ": groups of " + std::to_string(threads) +
                    " threads, the device allows 1 to " + std::to_string(device.max_group_threads),
                d.file, d.line);
  }
  if (l.shared_bytes > device.max_shared_bytes) {
    return fail(ErrorCode::limit,
                std::string(name) + ": " + std::to_string(l.shared_bytes) +
                    " bytes of shared memory, the device has " +
                    std::to_string(device.max_shared_bytes),
                d.file, d.line);
  }
  for (std::size_t i = 0; i < d.n_views; ++i) {
    if (d.views[i].bytes > device.max_binding_bytes) {
      return fail(ErrorCode::limit,
                  std::string(name) + ": view " + std::to_string(i) + " has " +
                      std::to_string(d.views[i].bytes) + " bytes, one binding holds " +
                      std::to_string(device.max_binding_bytes),
                  d.file, d.line);
    }
  }
  return {};
}

}  // namespace

Result<Lowered> lower(const NodeList& list, std::span<const std::uint32_t> order,
                      bool fence_opaque) {
  const DeviceInfo& device = list.device().info();
  Lowered out;
  out.n_list_regions = static_cast<std::uint32_t>(list.regions().size());
  out.items.reserve(order.size());
  out.kinds.reserve(order.size());
  out.range_offsets.reserve(order.size() + 1);
  out.range_offsets.push_back(0);
  const auto add_fence = [&](std::uint32_t node) {
    out.items.emplace_back().node = node;
    out.kinds.push_back(NodeKind::fence);
    out.range_offsets.push_back(static_cast<std::uint32_t>(out.ranges.size()));
  };
  for (const std::uint32_t node : order) {
    const StoredNode& n = list.node(node);
    if (n.kind == CapturedNode::Kind::fence || (n.opaque && fence_opaque)) add_fence(node);
    if (n.kind == CapturedNode::Kind::dispatch) {
      Lowered::Item& item = out.items.emplace_back();
      item.node = node;
      out.kinds.push_back(n.opaque ? NodeKind::opaque : NodeKind::dispatch);
      Dispatch d = list.dispatch(node);
      if (d.op == Op::custom) {
        const KernelEntry* e = list.device().find_kernel(d.kernel);
        item.kernel = &e->row;
        if (e->builtin) {  // a built-in kernel by name: its launch function expects the op
          d.op = e->row.op;
          d.format = e->row.format;
        }
        item.launch.n_spec = static_cast<std::uint16_t>(e->spec.size());
        std::copy(e->spec.begin(), e->spec.end(), item.launch.spec.begin());
      } else {
        item.kernel = list.device().find_row(d.op, d.format);
      }
      if (item.kernel->launch != nullptr) {
        ONEPASS_TRY(item.kernel->launch(device, d, item.launch));
      } else {
        ONEPASS_TRY(default_launch(d, item.launch));
      }
      ONEPASS_TRY(check_launch(device, list, d, item.launch));
      const auto ranges = list.ranges(node);
      out.ranges.insert(out.ranges.end(), ranges.begin(), ranges.end());
      if (item.launch.scratch_bytes != 0) {
        item.scratch = static_cast<std::uint32_t>(out.workspace.size());
        out.workspace.push_back(item.launch.scratch_bytes);
        out.ranges.push_back(
            Range{0, item.launch.scratch_bytes, out.n_list_regions + item.scratch, true});
      }
      if (item.launch.persistent_bytes != 0) {
        item.persistent = out.persistent_bytes;
        out.persistent_bytes += align_up(item.launch.persistent_bytes);
      }
      out.range_offsets.push_back(static_cast<std::uint32_t>(out.ranges.size()));
      if (n.opaque && fence_opaque) add_fence(node);
    }
  }
  return out;
}

Result<PlacedMemory> place(const NodeList& list, const Lowered& lowered, const Dag* dag,
                           const ArenaSource& source) {
  PlacedMemory out;
  std::vector<ScratchItem> items;
  std::vector<ScratchTable::Item*> owners;
  const auto regions = list.regions();
  for (std::uint32_t r = 0; r < regions.size(); ++r) {
    if (!regions[r].is_scratch()) continue;
    ScratchTable::Item& item = list.tables()[regions[r].table]->items[regions[r].item];
    if (item.block) continue;
    items.push_back({item.bytes, r});
    owners.push_back(&item);
  }
  for (std::uint32_t w = 0; w < lowered.workspace.size(); ++w) {
    items.push_back({lowered.workspace[w], lowered.n_list_regions + w});
    owners.push_back(nullptr);
  }
  static const Dag no_dag;
  const Placement placement = place_scratch(lowered.program(), dag ? *dag : no_dag, items,
                                            buffer_alignment, dag != nullptr);
  out.arena_bytes = placement.arena_bytes;
  out.unaliased_bytes = placement.unaliased_bytes;
  if (!items.empty()) {
    const std::uint64_t need = std::max(placement.arena_bytes, buffer_alignment);
    std::shared_ptr<ArenaBlock> block = source.shared ? *source.shared : nullptr;
    if (!block || block->memory().bytes < need) {
      ONEPASS_ASSIGN(block, list.device().arena(need, false));
      if (source.shared) *source.shared = block;
    }
    out.workspace.reserve(lowered.workspace.size());
    out.workspace_ranges.reserve(lowered.workspace.size());
    out.blocks.reserve(2);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::uint64_t offset = placement.offsets[i];
      if (owners[i] != nullptr) {
        owners[i]->block = block;
        owners[i]->offset = offset;
      } else {
        out.workspace.push_back(BoundView{block->memory(), offset, items[i].bytes});
        out.workspace_ranges.push_back(
            PhysicalRange{block->region(), offset, offset + items[i].bytes, true});
      }
    }
    out.blocks.push_back(std::move(block));
  }
  for (const auto& table : list.tables()) {
    for (const ScratchTable::Item& item : table->items) {
      if (item.block &&
          std::find(out.blocks.begin(), out.blocks.end(), item.block) == out.blocks.end()) {
        out.blocks.push_back(item.block);
      }
    }
  }
  if (lowered.persistent_bytes != 0) {
    ONEPASS_ASSIGN(std::shared_ptr<ArenaBlock> block,
                   list.device().arena(lowered.persistent_bytes, true));
    out.persistent = BoundView{block->memory(), 0, lowered.persistent_bytes};
    out.persistent_region = block->region();
    out.blocks.push_back(std::move(block));
  }
  return out;
}

void fill_recording(const NodeList& list, const Lowered& lowered, const PlacedMemory& memory,
                    std::span<const std::uint32_t> sequence, Recording& out) {
  out.launches.reserve(sequence.size());
  out.range_offsets.reserve(sequence.size() + 1);
  out.ranges.reserve(lowered.ranges.size());
  out.range_offsets.push_back(0);
  for (const std::uint32_t index : sequence) {
    const Lowered::Item& item = lowered.items[index];
    RecordedLaunch& l = out.launches.emplace_back();
    l.kernel = item.kernel;
    l.index = index;
    if (item.kernel != nullptr) {
      const Dispatch d = list.dispatch(item.node);
      l.launch = item.launch;
      l.n_views = d.n_views;
      for (std::size_t i = 0; i < d.n_views; ++i) l.views[i] = list.bind(d.views[i]);
      l.params.fill(std::byte{0});
      std::memcpy(l.params.data(), d.params.data(), d.params_bytes);
      l.grid = d.grid;
      l.extra = d.extra;
      l.label = d.label;
      l.kind = list.node(item.node).op_kind;
      if (item.scratch != ~0u) l.scratch = memory.workspace[item.scratch];
      if (item.persistent != ~std::uint64_t{0}) {
        l.persistent = memory.persistent;
        l.persistent.offset += item.persistent;
        l.persistent.bytes = item.launch.persistent_bytes;
      }
      for (std::uint32_t r = lowered.range_offsets[index]; r < lowered.range_offsets[index + 1];
           ++r) {
        const Range& range = lowered.ranges[r];
        out.ranges.push_back(range.region < lowered.n_list_regions
                                 ? list.physical(range)
                                 : memory.workspace_ranges[range.region - lowered.n_list_regions]);
      }
    }
    out.range_offsets.push_back(static_cast<std::uint32_t>(out.ranges.size()));
  }
}

namespace {

struct KeptAlive {
  std::vector<std::shared_ptr<const DispatchExtra>> extras;
  std::vector<std::shared_ptr<ScratchTable>> tables;
};

}  // namespace

std::shared_ptr<void> keep_alive(const NodeList& list) {
  auto kept = std::make_shared<KeptAlive>();
  kept->extras.assign(list.extras().begin(), list.extras().end());
  kept->tables.assign(list.tables().begin(), list.tables().end());
  return kept;
}

Result<GroupedPass> build_grouped(NodeList& list, bool validate_order) {
  GroupedPass out;
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> level;
  order.reserve(list.size());
  level.reserve(list.size());
  std::uint32_t group = 0, in_group = 0;
  const auto close_group = [&] {
    if (in_group == 0) return;
    ++out.group_sizes[std::min<std::uint32_t>(in_group, 8) - 1];
    in_group = 0;
    ++group;
  };
  for (std::uint32_t i = 0; i < list.size(); ++i) {
    if (!list.is_dispatch(i)) {
      close_group();
      continue;
    }
    order.push_back(i);
    level.push_back(group);
    ++in_group;
  }
  close_group();
  out.barriers = group == 0 ? 0 : group - 1;

  ONEPASS_ASSIGN(const Lowered lowered, lower(list, order, false));
  ONEPASS_ASSIGN(PlacedMemory memory, place(list, lowered, nullptr, {}));
  auto pass = std::make_shared<RecordedPass>(list.device());
  Recording& r = pass->recording;
  std::vector<std::uint32_t> sequence(order.size());
  std::iota(sequence.begin(), sequence.end(), 0u);
  fill_recording(list, lowered, memory, sequence, r);
  r.level_offsets.reserve(group + 1);
  for (std::uint32_t i = 0; i < r.launches.size(); ++i) {
    r.launches[i].level = level[i];
    if (i == 0 || level[i] != level[i - 1]) r.level_offsets.push_back(i);
  }
  if (!r.launches.empty()) {
    r.level_offsets.push_back(static_cast<std::uint32_t>(r.launches.size()));
  }
  r.serial = list.device().options().serial;
  r.timed = list.device().options().profile == Profile::dispatches;
  r.keep_alive = keep_alive(list);
  if (validate_order) ONEPASS_TRY(validate(r, r.model()));
  pass->arenas = std::move(memory.blocks);
  ONEPASS_TRY(list.device().record(*pass));
  out.pass = std::move(pass);
  return out;
}

}  // namespace onepass::graph
