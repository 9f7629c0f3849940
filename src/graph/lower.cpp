#include "graph/lower.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/tables.h"

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
  return {};
}

// The memory of a dispatch's group slots, behind which that of the launch function begins.
void add_group_memory(const DispatchExtra& extra, Launch& l) {
  const std::uint64_t bytes = extra.group_offset(extra.shared.size()) + l.shared_bytes;
  l.shared_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, 0xffffffffu));
}

Status check_launch(const DeviceState& state, const Dispatch& d, const Launch& l) {
  const DeviceInfo& device = state.info();
  const std::uint64_t threads = std::uint64_t{l.group[0]} * l.group[1] * l.group[2];
  const char* name = dispatch_name(state, d.op, d.kernel);
  if (threads == 0 || threads > device.max_group_threads) {
    return fail(ErrorCode::limit,
                std::string(name) + ": groups of " + std::to_string(threads) +
                    " threads, the device allows 1 to " + std::to_string(device.max_group_threads),
                d.file, d.line);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    if (l.grid[i] <= device.max_groups[i]) continue;
    return fail(ErrorCode::limit,
                std::string(name) + ": " + std::to_string(l.grid[i]) + " groups in dimension " +
                    std::to_string(i) + ", the device allows " +
                    std::to_string(device.max_groups[i]),
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

Status launch_of(const DeviceState& device, const KernelRow& row, const Dispatch& d,
                 Launch& launch) {
  if (row.launch != nullptr) {
    ONEPASS_TRY(row.launch(device.info(), d, launch));
  } else {
    ONEPASS_TRY(default_launch(d, launch));
  }
  if (d.op == Op::custom && d.extra != nullptr) add_group_memory(*d.extra, launch);
  return check_launch(device, d, launch);
}

namespace {

class Lowering {
 public:
  Lowering(const NodeList& list, const MadeLaunches& made)
      : list_(list), made_(made), device_(list.device().info()) {
    out_.n_list_regions = static_cast<std::uint32_t>(list.regions().size());
    out_.items.reserve(list.size());
    out_.kinds.reserve(list.size());
    out_.range_offsets.reserve(list.size() + 1);
    out_.range_offsets.push_back(0);
  }

  Result<Lowered> run() {
    for (std::uint32_t node = 0; node < list_.size(); ++node) {
      const StoredNode& n = list_.node(node);
      if (n.kind == CapturedNode::Kind::barrier) behind_barrier_ = true;
      if (n.kind == CapturedNode::Kind::fence || n.opaque) add_fence(node);
      if (n.kind == CapturedNode::Kind::dispatch) ONEPASS_TRY(add_dispatch(node));
      if (n.opaque) add_fence(node);
    }
    return std::move(out_);
  }

 private:
  void add_fence(std::uint32_t node) {
    out_.items.emplace_back().node = node;
    out_.kinds.push_back(NodeKind::fence);
    out_.range_offsets.push_back(static_cast<std::uint32_t>(out_.ranges.size()));
  }

  Result<const KernelRow*> row_of(const Dispatch& d) const {
    const KernelRow* row = list_.device().find_row(d);
    if (row != nullptr) return row;
    const bool built = list_.device().find_row(d.op, d.format) != nullptr;
    return fail(ErrorCode::unsupported,
                std::string(info(d.op).name) + "_" + name(d.format) +
                    (built ? form_text(form_of(d)) + " of this shape" : "") + " is not built for " +
                    device_.name,
                d.file, d.line);
  }

  Status add_dispatch(std::uint32_t node) {
    Dispatch d = list_.dispatch(node);
    if (d.op == Op::custom) {
      const KernelEntry* e = list_.device().find_kernel(d.kernel);
      if (e->builtin) {  // a built-in kernel by name: its launch function expects the op
        d.op = e->row.op;
        d.format = e->row.format;
      }
      return add_launch(node, d, e->row, e->spec, ~0u);
    }
    const MadeLaunches::Made* const made = made_.of(node);
    const KernelRow* row = made != nullptr ? made->kernel : nullptr;
    if (row == nullptr) {
      ONEPASS_ASSIGN(row, row_of(d));
    }
    LaunchList launches;
    if (row->lower != nullptr) ONEPASS_TRY(row->lower(device_, d, launches));
    if (launches.parts().empty()) {
      return made != nullptr ? add_made(node, *made) : add_launch(node, d, *row, {}, ~0u);
    }
    const auto first_scratch = static_cast<std::uint32_t>(out_.workspace.size());
    out_.workspace.insert(out_.workspace.end(), launches.scratch_bytes().begin(),
                          launches.scratch_bytes().end());
    for (const Dispatch& part : launches.parts()) {
      const auto index = static_cast<std::uint32_t>(out_.parts.size());
      Dispatch& kept = out_.parts.emplace_back(part);
      kept.label = d.label;
      kept.group = d.group;
      for (std::size_t v = 0; v < kept.n_views; ++v) {
        if (Lowered::workspace_of(kept.views[v]) != ~0u)
          kept.views[v].buffer.index += first_scratch;
      }
      ONEPASS_ASSIGN(const KernelRow* part_row, row_of(kept));
      ONEPASS_TRY(add_launch(node, Dispatch(kept), *part_row, {}, index));
    }
    return {};
  }

  Status add_launch(std::uint32_t node, const Dispatch& d, const KernelRow& row,
                    std::span<const SpecValue> spec, std::uint32_t part) {
    Lowered::Item& item = add_item(node, part, row);
    item.launch.n_spec = static_cast<std::uint16_t>(spec.size());
    std::copy(spec.begin(), spec.end(), item.launch.spec.begin());
    ONEPASS_TRY(launch_of(list_.device(), row, d, item.launch));
    if (part == ~0u) {
      add_recorded_ranges(node);
    } else {
      add_part_ranges(d);
    }
    add_memory(item);
    return {};
  }

  Status add_made(std::uint32_t node, const MadeLaunches::Made& made) {
    Lowered::Item& item = add_item(node, ~0u, *made.kernel);
    item.launch = made.launch;
    add_recorded_ranges(node);
    add_memory(item);
    return {};
  }

  Lowered::Item& add_item(std::uint32_t node, std::uint32_t part, const KernelRow& row) {
    Lowered::Item& item = out_.items.emplace_back();
    item.node = node;
    item.part = part;
    item.kernel = &row;
    item.behind_barrier = std::exchange(behind_barrier_, false);
    out_.kinds.push_back(list_.node(node).opaque ? NodeKind::opaque : NodeKind::dispatch);
    return item;
  }

  // Behind the ranges of an item's views: they end here.
  void add_memory(Lowered::Item& item) {
    if (item.launch.scratch_bytes != 0) {
      item.scratch = static_cast<std::uint32_t>(out_.workspace.size());
      out_.workspace.push_back(item.launch.scratch_bytes);
      out_.ranges.push_back(
          Range{0, item.launch.scratch_bytes, out_.n_list_regions + item.scratch, true});
    }
    if (item.launch.persistent_bytes != 0) {
      item.persistent = out_.persistent_bytes;
      out_.persistent_bytes += align_up(item.launch.persistent_bytes);
    }
    out_.range_offsets.push_back(static_cast<std::uint32_t>(out_.ranges.size()));
  }

  void add_recorded_ranges(std::uint32_t node) {
    const auto ranges = list_.ranges(node);
    out_.ranges.insert(out_.ranges.end(), ranges.begin(), ranges.end());
  }

  void add_part_ranges(const Dispatch& d) {
    for (std::size_t v = 0; v < d.n_views; ++v) {
      const View& view = d.views[v];
      const std::uint32_t workspace = Lowered::workspace_of(view);
      if (view.bytes == 0 || (workspace == ~0u && list_.is_immutable(view))) continue;
      Range r = workspace == ~0u ? list_.range_of(view)
                                 : Range{view.offset, view.offset + view.bytes,
                                         out_.n_list_regions + workspace, false};
      r.write = writes(d.access[v]);
      out_.ranges.push_back(r);
    }
  }

  const NodeList& list_;
  const MadeLaunches& made_;
  const DeviceInfo& device_;
  Lowered out_;
  bool behind_barrier_ = false;
};

}  // namespace

Result<Lowered> lower(const NodeList& list, const MadeLaunches& made) {
  return Lowering(list, made).run();
}

}  // namespace onepass::graph
