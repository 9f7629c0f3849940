#include "onepass/plan.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

#include "core/guarded.h"
#include "graph/fuse.h"
#include "graph/hazards.h"
#include "graph/memory.h"
#include "graph/pass.h"
#include "graph/plan_state.h"
#include "graph/schedule.h"
#include "graph/validate.h"

namespace onepass {
namespace graph {
namespace {

class Stopwatch {
 public:
  std::uint64_t lap_ns() {
    const auto now = std::chrono::steady_clock::now();
    const auto ns = std::chrono::nanoseconds(now - last_).count();
    last_ = now;
    return static_cast<std::uint64_t>(ns);
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

std::vector<std::uint32_t> all_but_barriers(const NodeList& list) {
  std::vector<std::uint32_t> order;
  order.reserve(list.size());
  for (std::uint32_t i = 0; i < list.size(); ++i) {
    if (list.node(i).kind != CapturedNode::Kind::barrier) order.push_back(i);
  }
  return order;
}

// The closure of the DAG over the bytes really used must be the one over the virtual ones.
Status check_closure(const Lowered& lowered, const Dag& dag, const Recording& in_program_order,
                     HazardWorkspace& workspace) {
  std::map<std::uint64_t, std::uint32_t> dense;
  std::vector<Range> ranges;
  ranges.reserve(in_program_order.ranges.size());
  for (const PhysicalRange& r : in_program_order.ranges) {
    const auto [it, inserted] = dense.emplace(r.region, static_cast<std::uint32_t>(dense.size()));
    ranges.push_back(Range{r.lo, r.hi, it->second, r.write});
  }
  const Program program{lowered.kinds, in_program_order.range_offsets, ranges,
                        static_cast<std::uint32_t>(dense.size())};
  Dag physical;
  dependencies(program, workspace, physical);
  for (std::uint32_t i = 0; i < dag.size(); ++i) {
    const auto expected = dag.ancestors.row(i);
    if (!std::equal(expected.begin(), expected.end(), physical.ancestors.row(i).begin())) {
      return fail(ErrorCode::internal,
                  "scratch aliasing changed what dispatch " + std::to_string(i) + " depends on");
    }
  }
  return {};
}

// Launches in level order with levels, edges and ranges. Fences that separate nothing are left out.
void order_recording(const NodeList& list, const Lowered& lowered, const PlacedMemory& memory,
                     const Dag& dag, const Groups& groups, std::span<const std::uint32_t> order,
                     Recording& out) {
  std::vector<std::uint32_t> kept;
  kept.reserve(order.size());
  std::vector<std::uint32_t> position(order.size(), ~0u);
  for (const std::uint32_t i : order) {
    const bool fence = lowered.kinds[i] == NodeKind::fence;
    if (fence && (groups.level[i] == 0 || groups.level[i] >= groups.count)) continue;
    position[i] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(i);
  }
  fill_recording(list, lowered, memory, kept, out);
  out.pred_offsets.reserve(kept.size() + 1);
  out.pred_offsets.push_back(0);
  for (std::uint32_t k = 0; k < kept.size(); ++k) {
    const std::uint32_t i = kept[k];
    out.launches[k].level = groups.level[i];
    if (k == 0 || groups.level[i] != out.launches[k - 1].level) out.level_offsets.push_back(k);
    for (const std::uint32_t p : dag.preds_of(i)) {
      if (position[p] != ~0u) out.preds.push_back(position[p]);
    }
    std::sort(out.preds.begin() + out.pred_offsets.back(), out.preds.end());
    out.pred_offsets.push_back(static_cast<std::uint32_t>(out.preds.size()));
  }
  if (!kept.empty()) out.level_offsets.push_back(static_cast<std::uint32_t>(kept.size()));
}

struct Schedule {
  std::vector<std::uint32_t> order;
  Groups groups;
};
Schedule make_schedule(const NodeList& list, const Lowered& lowered, const Dag& dag,
                       Policy policy) {
  const Program program = lowered.program();
  if (policy == Policy::exact) return {level_order(program, dag), {dag.level, dag.n_levels}};
  std::vector<std::uint8_t> movable(program.size());
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    movable[i] = is_reorderable(list.node(lowered.items[i].node).op_kind) ? 1 : 0;
  }
  Schedule schedule;
  schedule.order = greedy_order(program, movable);
  schedule.groups = groups_of(program, schedule.order);
  return schedule;
}

}  // namespace

Status place_scratch_of(const NodeList& list, bool alias) {
  const NodeList::ProgramStorage storage = list.program();
  const Program program = storage.view();
  Lowered lowered;  // only the program is looked at
  lowered.n_list_regions = program.n_regions;
  lowered.kinds.assign(program.kinds.begin(), program.kinds.end());
  lowered.range_offsets.assign(program.range_offsets.begin(), program.range_offsets.end());
  lowered.ranges.assign(program.ranges.begin(), program.ranges.end());
  Dag dag;
  if (alias) {
    HazardWorkspace workspace;
    dependencies(program, workspace, dag);
  }
  ONEPASS_TRY(place(list, lowered, alias ? &dag : nullptr, {}));
  return {};
}

Result<std::shared_ptr<PlanState>> compile(const NodeList& recorded, const PlanOptions& options,
                                           std::shared_ptr<ArenaBlock>& arena) {
  Stopwatch watch;
  auto plan = std::make_shared<PlanState>();
  PlanReport& report = plan->report;
  plan->device = recorded.device_ptr();
  DeviceState& device = *plan->device;
  Fused fused;
  if (options.fuse) {
    ONEPASS_ASSIGN(fused, fuse(recorded, options.close_fusions));
    report.fused = std::move(fused.report);
  }
  const NodeList& list = fused.list ? *fused.list : recorded;
  report.fuse_ns = watch.lap_ns();
  ONEPASS_ASSIGN(const Lowered lowered, lower(list, all_but_barriers(list), true));
  report.lower_ns = watch.lap_ns();

  const Program program = lowered.program();
  HazardWorkspace workspace;
  Dag dag;
  dependencies(program, workspace, dag);
  const Schedule schedule = make_schedule(list, lowered, dag, options.policy);
  report.hazards_ns = watch.lap_ns();

  ONEPASS_ASSIGN(PlacedMemory memory,
                 place(list, lowered, options.alias_scratch ? &dag : nullptr, {&arena}));
  report.arena_bytes = memory.arena_bytes;
  report.scratch_bytes = memory.unaliased_bytes;
  report.persistent_bytes = lowered.persistent_bytes;
  if (!dag.ancestors.empty()) {
    Recording in_order;
    std::vector<std::uint32_t> sequence(lowered.items.size());
    std::iota(sequence.begin(), sequence.end(), 0u);
    fill_recording(list, lowered, memory, sequence, in_order);
    ONEPASS_TRY(check_closure(lowered, dag, in_order, workspace));
  }
  report.memory_ns = watch.lap_ns();

  plan->pass = std::make_shared<RecordedPass>(device);
  RecordedPass& pass = *plan->pass;
  Recording& r = pass.recording;
  order_recording(list, lowered, memory, dag, schedule.groups, schedule.order, r);
  r.replayed = true;
  r.serial = device.options().serial;
  r.timed = device.options().profile == Profile::dispatches;
  r.keep_alive = keep_alive(list);
  pass.label = options.label ? options.label : "plan";
  pass.arenas = std::move(memory.blocks);
  for (const NodeList::Region& region : list.regions()) {
    if (region.buffer && !region.is_scratch()) pass.required.push_back(region.buffer);
  }
  const auto imported = list.imported();
  pass.required.insert(pass.required.end(), imported.begin(), imported.end());
  if (options.step != nullptr) {
    const View view = options.step->view();
    if (!device.retain(view.buffer)) {
      return fail(ErrorCode::stale, "compile: the step state was freed");
    }
    r.step = BoundView{device.facts(view.buffer).memory, view.offset, view.bytes};
    device.release(view.buffer);
    plan->max_rows = options.step->max_rows();
    plan->max_slots = options.step->max_slots();
    plan->step_bytes.resize(view.bytes);
    pass.required.push_back(view.buffer);
  }
  if (options.validate) {
    ONEPASS_TRY(validate(r, r.serial ? ExecutionModel::in_order : device.info().model));
    report.validated = true;
  }
  report.validate_ns = watch.lap_ns();
  ONEPASS_TRY(device.record(pass));
  report.record_ns = watch.lap_ns();

  report.dispatches = pass.dispatches;
  report.fences = static_cast<std::uint32_t>(r.launches.size()) - pass.dispatches;
  report.levels = schedule.groups.count;
  report.longest_path = dag.n_levels;
  report.barriers = report.levels == 0 ? 0 : report.levels - 1;
  report.moved = moved_count(program, schedule.order);
  report.edges = static_cast<std::uint32_t>(r.preds.size());
  report.hazard_edges = dag.edges_found;
  return plan;
}

}  // namespace graph

Result<Submission> PlanState::submit(const StepValues* values) {
  const auto count = [this](Result<Submission> submitted) {
    if (submitted) {
      device->counters.replayed_dispatches.fetch_add(pass->dispatches, std::memory_order_relaxed);
      device->counters.barriers.fetch_add(report.barriers, std::memory_order_relaxed);
    }
    return submitted;
  };
  if (values == nullptr) return count(device->submit(pass, {}, pass->label, false));
  if (max_rows == 0) {
    return fail(ErrorCode::invalid_state, "run: the plan was compiled without a step state");
  }
  const std::lock_guard lock(step_mutex);
  ONEPASS_TRY(StepState::serialize(*values, max_rows, max_slots, step_bytes));
  return count(device->submit(pass, step_bytes, pass->label, false));
}

namespace {

Error no_plan() { return make_error(ErrorCode::invalid_state, "run: the plan is empty"); }

}  // namespace

Result<Submission> Plan::run_async() const {
  return guarded([&]() -> Result<Submission> {
    if (!state_) return no_plan();
    return state_->submit(nullptr);
  });
}

Result<Submission> Plan::run_async(const StepValues& values) const {
  return guarded([&]() -> Result<Submission> {
    if (!state_) return no_plan();
    return state_->submit(&values);
  });
}

Status Plan::run() const {
  ONEPASS_ASSIGN(const Submission s, run_async());
  return s.wait();
}

Status Plan::run(const StepValues& values) const {
  ONEPASS_ASSIGN(const Submission s, run_async(values));
  return s.wait();
}

Result<std::uint32_t> Plan::count_hazards(std::uint32_t limit) const {
  return guarded([&]() -> Result<std::uint32_t> {
    if (!state_) return no_plan();
    std::size_t count = 0;
    for (const ExecutionModel model : {ExecutionModel::levels, ExecutionModel::edges}) {
      count += graph::find_violations(state_->pass->recording, model, limit).size();
    }
    return static_cast<std::uint32_t>(count);
  });
}

const PlanReport& Plan::report() const noexcept {
  static const PlanReport empty;
  return state_ ? state_->report : empty;
}

}  // namespace onepass
