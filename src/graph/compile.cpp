#include "graph/compile.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "core/os.h"
#include "graph/ancestor/greedy_order.h"
#include "graph/memory.h"
#include "graph/validate.h"

namespace onepass::graph {
namespace {

class Stopwatch {
 public:
  std::uint64_t lap_ns() noexcept {
    const std::uint64_t now = os::now_ns();
    return now - std::exchange(last_, now);
  }

 private:
  std::uint64_t last_ = os::now_ns();
};

// Scratch that one run may have without sharing it: finding out what may share costs more.
constexpr std::uint64_t small_scratch = std::uint64_t{4} << 20;

std::uint64_t scratch_bytes(const NodeList& list, const Lowered& lowered) {
  std::uint64_t sum = 0;
  for (const NodeList::Region& region : list.regions()) {
    if (region.is_scratch()) sum += list.tables()[region.table]->items[region.item].bytes;
  }
  return std::accumulate(lowered.workspace.begin(), lowered.workspace.end(), sum);
}

std::vector<std::uint32_t> recorded_order(std::size_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

// What a recording points into besides buffers.
struct KeptAlive {
  std::vector<std::shared_ptr<const DispatchExtra>> extras;
  std::vector<std::shared_ptr<ScratchTable>> tables;
};

std::shared_ptr<void> keep_alive(const NodeList& list) {
  auto kept = std::make_shared<KeptAlive>();
  kept->extras.assign(list.extras().begin(), list.extras().end());
  kept->tables.assign(list.tables().begin(), list.tables().end());
  return kept;
}

// Of the ranges of a dispatch those that its kernel reads before it waits.
void mark_early(const NodeList& list, const Dispatch& d, const KernelRow& row,
                std::span<const Range> ranges, std::span<PhysicalRange> out) {
  for (std::size_t v = 0; v < d.n_views; ++v) {
    const bool early_view = (row.start.reads_early >> v & 1) != 0 && d.views[v].buffer;
    if (!early_view || Lowered::workspace_of(d.views[v]) != ~0u) continue;
    const Range early = list.range_of(d.views[v]);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const Range& r = ranges[i];
      if (r.region == early.region && r.lo < early.hi && early.lo < r.hi) out[i].early = true;
    }
  }
}

}  // namespace

Result<Compilation> Compilation::of(NodeList& recorded, const CompileOptions& options,
                                    std::shared_ptr<ArenaBlock>* arena) {
  Compilation c(recorded, options);
  Stopwatch watch;
  MadeLaunches made;
  ONEPASS_ASSIGN(c.fused_,
                 graph::fuse(recorded, options.close_fusions,
                             options.fuse ? fusion_rows() : std::span<const FusionRow>{}, &made));
  // What was recorded between dispatches that are one now stands nowhere.
  if (c.fused_.count > 0 || options.policy != Policy::recorded) c.options_.recompute = true;
  c.fuse_ns = watch.lap_ns();
  ONEPASS_ASSIGN(c.lowered_, lower(c.list(), made));
  c.lower_ns = watch.lap_ns();

  const Program program = c.lowered_.program();
  HazardWorkspace workspace;
  if (!options.replayed && scratch_bytes(c.list(), c.lowered_) <= small_scratch) {
    c.options_.alias = false;
  }
  if (c.options_.alias || options.replayed || options.policy == Policy::exact) {
    dependencies(program, workspace, c.dag_);
  }
  if (options.policy == Policy::exact) {
    c.order_ = level_order(program, c.dag_);
  } else if (options.policy == Policy::recorded) {
    c.order_ = recorded_order(program.size());
  } else {
    std::vector<std::uint8_t> movable(program.size());
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      movable[i] = is_reorderable(c.list().node(c.lowered_.items[i].node).op_kind) ? 1 : 0;
    }
    c.order_ = greedy_order(program, movable);
  }
  c.order_ns = watch.lap_ns();

  ONEPASS_TRY(c.place(arena));
  if (options.replayed && !c.dag_.ancestors.empty()) ONEPASS_TRY(c.check_closure(workspace));
  c.memory_ns = watch.lap_ns();
  return c;
}

std::uint32_t Compilation::behind(std::uint64_t n) const noexcept {
  std::uint64_t seen = 0;
  std::uint32_t end = size();
  for (std::uint32_t i = 0; i < size(); ++i) {
    if (lowered_.kinds[order_[i]] == NodeKind::fence) continue;
    if (seen < n && ++seen == n) {
      end = i + 1;
    } else if (seen == n && end < size()) {
      return end;  // one is left
    }
  }
  return size();
}

// Gives every scratch item that has no bytes yet, and every workspace, a place.
Status Compilation::place(std::shared_ptr<ArenaBlock>* arena) {
  const NodeList& l = list();
  std::vector<ScratchItem> items;
  std::vector<ScratchTable::Item*> owners;
  const auto regions = l.regions();
  for (std::uint32_t r = 0; r < regions.size(); ++r) {
    if (!regions[r].is_scratch()) continue;
    ScratchTable::Item& item = l.tables()[regions[r].table]->items[regions[r].item];
    if (item.block) continue;
    items.push_back({item.bytes, r});
    owners.push_back(&item);
  }
  for (std::uint32_t w = 0; w < lowered_.workspace.size(); ++w) {
    items.push_back({lowered_.workspace[w], lowered_.n_list_regions + w});
    owners.push_back(nullptr);
  }
  const Placement placement =
      place_scratch(lowered_.program(), dag_, items, buffer_alignment, options_.alias);
  memory_.arena_bytes = placement.arena_bytes;
  memory_.unaliased_bytes = placement.unaliased_bytes;
  if (!items.empty()) {
    const std::uint64_t need = std::max(placement.arena_bytes, buffer_alignment);
    std::shared_ptr<ArenaBlock> block = arena ? *arena : nullptr;
    if (!block || block->memory().bytes < need) {
      ONEPASS_ASSIGN(block, l.device().arena(need, false));
      if (arena) *arena = block;
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::uint64_t offset = placement.offsets[i];
      if (owners[i] != nullptr) {
        owners[i]->block = block;
        owners[i]->offset = offset;
      } else {
        memory_.workspace.push_back(BoundView{block->memory(), offset, items[i].bytes});
        memory_.workspace_ranges.push_back(
            PhysicalRange{block->region(), offset, offset + items[i].bytes, true});
      }
    }
    memory_.blocks.push_back(std::move(block));
  }
  for (const auto& table : l.tables()) {
    for (const ScratchTable::Item& item : table->items) {
      const auto& blocks = memory_.blocks;
      if (item.block && std::find(blocks.begin(), blocks.end(), item.block) == blocks.end()) {
        memory_.blocks.push_back(item.block);
      }
    }
  }
  if (lowered_.persistent_bytes != 0) {
    ONEPASS_ASSIGN(std::shared_ptr<ArenaBlock> block,
                   l.device().arena(lowered_.persistent_bytes, true));
    memory_.persistent = BoundView{block->memory(), 0, lowered_.persistent_bytes};
    memory_.blocks.push_back(std::move(block));
  }
  return {};
}

// The closure of the DAG over the bytes really used must be the one over the virtual ones.
Status Compilation::check_closure(HazardWorkspace& workspace) const {
  Recording in_program_order;
  fill(recorded_order(lowered_.items.size()), in_program_order);
  std::map<std::uint64_t, std::uint32_t> dense;
  std::vector<Range> ranges;
  ranges.reserve(in_program_order.ranges.size());
  for (const PhysicalRange& r : in_program_order.ranges) {
    const auto [it, inserted] = dense.emplace(r.region, static_cast<std::uint32_t>(dense.size()));
    ranges.push_back(Range{r.lo, r.hi, it->second, r.write});
  }
  const Program program{lowered_.kinds, in_program_order.range_offsets, ranges,
                        static_cast<std::uint32_t>(dense.size())};
  Dag physical;
  dependencies(program, workspace, physical);
  for (std::uint32_t i = 0; i < dag_.size(); ++i) {
    const auto expected = dag_.ancestors.row(i);
    if (!std::equal(expected.begin(), expected.end(), physical.ancestors.row(i).begin())) {
      return fail(ErrorCode::internal,
                  "scratch aliasing changed what dispatch " + std::to_string(i) + " depends on");
    }
  }
  return {};
}

Groups Compilation::groups(std::span<const std::uint32_t> order) const {
  if (!options_.recompute) return groups_between_barriers(order);
  if (options_.policy == Policy::exact && order.size() == order_.size()) {
    return {dag_.level, dag_.n_levels};
  }
  return groups_of(lowered_.program(), order);
}

// Bytes that nobody but compiling knows of.
bool Compilation::is_made_here(const Range& range) const noexcept {
  if (range.region >= lowered_.n_list_regions) return true;
  const NodeList::Region& region = list().regions()[range.region];
  return region.is_scratch() && list().tables()[region.table]->made_by_compile;
}

// Groups end at recorded barriers and fences, with `check` where ranges conflict, and always where
// bytes conflict that compiling made: nobody could record a barrier for them.
Groups Compilation::groups_between_barriers(std::span<const std::uint32_t> order) const {
  Groups groups;
  groups.level.resize(lowered_.items.size());
  GroupTracker all, made;
  std::vector<Range> own;
  bool closes = false, any = false;
  std::uint32_t level = 0;
  std::vector<std::uint32_t> fences;  // in front of the next dispatch
  for (const std::uint32_t i : order) {
    if (lowered_.kinds[i] == NodeKind::fence) {
      closes = true;
      fences.push_back(i);
      continue;
    }
    const auto ranges = lowered_.ranges_of(i);
    own.clear();
    std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(own),
                 [&](const Range& r) { return is_made_here(r); });
    closes |= lowered_.items[i].behind_barrier || made.conflicts(own) ||
              (options_.check && all.conflicts(ranges));
    if (closes && any) {
      ++level;
      all.reset();
      made.reset();
    }
    if (options_.check) all.add(ranges);
    made.add(own);
    for (const std::uint32_t fence : fences) groups.level[fence] = any ? level : 0;
    fences.clear();
    groups.level[i] = level;
    any = true;
    closes = false;
  }
  groups.count = any ? level + 1 : 0;
  for (const std::uint32_t fence : fences) groups.level[fence] = groups.count;
  return groups;
}

BoundView Compilation::bind(const View& view) const noexcept {
  const std::uint32_t workspace = Lowered::workspace_of(view);
  if (workspace == ~0u) return list().bind(view);
  BoundView bound = memory_.workspace[workspace];
  bound.offset += view.offset;
  bound.bytes = view.bytes;
  return bound;
}

// Launches, views, params and ranges; levels are the caller's.
void Compilation::fill(std::span<const std::uint32_t> order, Recording& out) const {
  const NodeList& l = list();
  out.launches.reserve(order.size());
  out.range_offsets.reserve(order.size() + 1);
  out.ranges.reserve(lowered_.ranges.size());
  out.range_offsets.push_back(0);
  for (const std::uint32_t index : order) {
    const Lowered::Item& item = lowered_.items[index];
    RecordedLaunch& to = out.launches.emplace_back();
    to.kernel = item.kernel;
    to.index = index;
    if (item.kernel != nullptr) {
      const Dispatch d = lowered_.dispatch(l, item);
      to.launch = item.launch;
      // Slots that were left out are empty.
      to.n_views = info(d.op).forms != 0 ? info(d.op).n_slots : d.n_views;
      for (std::size_t i = 0; i < d.n_views; ++i) to.views[i] = bind(d.views[i]);
      to.params.fill(std::byte{0});
      std::memcpy(to.params.data(), d.params.data(), d.params_bytes);
      to.grid = d.grid;
      to.extra = d.extra;
      to.label = d.label;
      to.group = d.group;
      to.kind = l.node(item.node).op_kind;
      if (item.scratch != ~0u) to.scratch = memory_.workspace[item.scratch];
      if (item.persistent != ~std::uint64_t{0}) {
        to.persistent = memory_.persistent;
        to.persistent.offset += item.persistent;
        to.persistent.bytes = item.launch.persistent_bytes;
      }
      const auto ranges = lowered_.ranges_of(index);
      for (const Range& range : ranges) {
        out.ranges.push_back(
            range.region < lowered_.n_list_regions
                ? l.physical(range)
                : memory_.workspace_ranges[range.region - lowered_.n_list_regions]);
      }
      mark_early(l, d, *item.kernel, ranges, std::span(out.ranges).last(ranges.size()));
    }
    out.range_offsets.push_back(static_cast<std::uint32_t>(out.ranges.size()));
  }
}

Dependencies Compilation::dependencies_of(std::span<const std::uint32_t> order) const {
  std::vector<std::uint32_t> position(lowered_.items.size(), ~0u);
  for (std::uint32_t k = 0; k < order.size(); ++k) position[order[k]] = k;
  Dependencies d;
  d.offsets.reserve(order.size() + 1);
  d.offsets.push_back(0);
  for (const std::uint32_t i : order) {
    for (const std::uint32_t p : dag_.preds_of(i)) {
      if (position[p] != ~0u) d.preds.push_back(position[p]);
    }
    std::sort(d.preds.begin() + d.offsets.back(), d.preds.end());
    d.offsets.push_back(static_cast<std::uint32_t>(d.preds.size()));
  }
  return d;
}

Result<Part> Compilation::part(std::uint32_t begin, std::uint32_t end) const {
  Stopwatch watch;
  DeviceState& device = list().device();
  const auto whole = std::span(order_).subspan(begin, end - begin);
  const Groups levels = groups(whole);
  // Fences that separate nothing are left out.
  std::vector<std::uint32_t> kept;
  kept.reserve(whole.size());
  for (const std::uint32_t i : whole) {
    const bool fence = lowered_.kinds[i] == NodeKind::fence;
    if (fence && (levels.level[i] == 0 || levels.level[i] >= levels.count)) continue;
    kept.push_back(i);
  }

  Part part;
  part.levels = levels.count;
  part.pass = std::make_shared<RecordedPass>(device);
  RecordedPass& pass = *part.pass;
  Recording& r = pass.recording;
  fill(kept, r);
  std::uint32_t in_level = 0;
  for (std::uint32_t k = 0; k < kept.size(); ++k) {
    r.launches[k].level = levels.level[kept[k]];
    in_level += r.launches[k].is_fence() ? 0u : 1u;
    const bool ends = k + 1 == kept.size() || levels.level[kept[k + 1]] != r.launches[k].level;
    if (!ends || in_level == 0) continue;
    ++part.group_sizes[std::min<std::uint32_t>(in_level, 8) - 1];
    in_level = 0;
  }
  r.step = options_.step;
  r.replayed = options_.replayed;
  r.timed = device.options().profile == Profile::dispatches;
  r.keep_alive = keep_alive(list());
  pass.arenas = memory_.blocks;

  const bool serial = device.options().serial;
  if (options_.replayed) {
    part.dependencies = dependencies_of(kept);
    pass.order = choose_order(r, part.dependencies, device.info(), serial);
  } else if (!serial) {
    pass.order = order_by_levels(r);
  }
  part.record_ns = watch.lap_ns();
  if (options_.validate) ONEPASS_TRY(validate(r, pass.order));
  part.validate_ns = watch.lap_ns();
  ONEPASS_TRY(device.record(pass));
  part.record_ns += watch.lap_ns();
  return part;
}

Result<Submission> submit_once(Part& part, NodeList& list, std::string_view label) {
  DeviceState& device = list.device();
  const bool retains = device.options().retain == Retain::submission;
  std::vector<BufferId>& ids = retains ? part.pass->retained : part.pass->watched;
  ids = list.take_retained();
  Result<Submission> submitted = device.submit(part.pass, {}, label, true);
  if (!submitted) {
    list.restore_retained(std::exchange(ids, {}));
  } else if (!retains) {
    for (const BufferId id : ids) device.release(id);
  }
  return submitted;
}

}  // namespace onepass::graph
