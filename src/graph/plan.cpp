#include "onepass/plan.h"

#include "core/guarded.h"
#include "graph/compile.h"
#include "graph/plan_state.h"
#include "graph/validate.h"

namespace onepass {

Result<std::shared_ptr<PlanState>> PlanState::compile(NodeList& recorded,
                                                      const PlanOptions& options,
                                                      std::shared_ptr<ArenaBlock>& arena) {
  auto plan = std::make_shared<PlanState>();
  plan->device = recorded.device_ptr();
  DeviceState& device = *plan->device;
  BoundView step;
  if (options.step != nullptr) {
    const View view = options.step->view();
    if (!device.retain(view.buffer)) {
      return fail(ErrorCode::stale, "compile: the step state was freed");
    }
    step = BoundView{device.facts(view.buffer).memory, view.offset, view.bytes};
    device.release(view.buffer);
    plan->max_rows = options.step->max_rows();
    plan->max_slots = options.step->max_slots();
    plan->step_bytes.resize(view.bytes);
  }
  ONEPASS_ASSIGN(const graph::Compilation c,
                 graph::Compilation::of(recorded,
                                        {.fuse = options.fuse,
                                         .close_fusions = options.close_fusions,
                                         .policy = options.policy,
                                         .alias = options.alias_scratch,
                                         .validate = options.validate,
                                         .replayed = true,
                                         .step = step},
                                        &arena));
  ONEPASS_ASSIGN(graph::Part part, c.part(0, c.size()));
  RecordedPass& pass = *part.pass;
  pass.label = options.label ? options.label : "plan";
  pass.required = c.list().buffers();
  if (options.step != nullptr) pass.required.push_back(options.step->view().buffer);

  PlanReport& report = plan->report;
  report.fused = c.fused();
  report.fuse_ns = c.fuse_ns;
  report.lower_ns = c.lower_ns;
  report.hazards_ns = c.order_ns;
  report.memory_ns = c.memory_ns;
  report.validate_ns = part.validate_ns;
  report.record_ns = part.record_ns;
  report.validated = options.validate;
  report.arena_bytes = c.memory().arena_bytes;
  report.scratch_bytes = c.memory().unaliased_bytes;
  report.persistent_bytes = c.persistent_bytes();
  report.dispatches = pass.dispatches;
  report.fences = static_cast<std::uint32_t>(pass.recording.launches.size()) - pass.dispatches;
  report.levels = part.levels;
  report.longest_path = c.dag().n_levels;
  report.barriers = part.barriers();
  report.moved = c.moved();
  report.edges = static_cast<std::uint32_t>(part.dependencies.preds.size());
  report.hazard_edges = c.dag().edges_found;
  report.order = part.pass->order.kind;
  for (const Edge& e : part.pass->order.edges) {
    ++report.edges_issued;
    report.programmatic += e.programmatic ? 1 : 0;
    report.added += e.added ? 1 : 0;
  }
  plan->dependencies = std::move(part.dependencies);
  plan->pass = std::move(part.pass);
  return plan;
}

Result<Submission> PlanState::submit(const StepValues* values) {
  const auto count = [this](Result<Submission> submitted) {
    if (submitted) {
      device->counters.replayed_dispatches.fetch_add(pass->dispatches, std::memory_order_relaxed);
      if (report.order == OrderKind::levels) {
        device->counters.barriers.fetch_add(report.barriers, std::memory_order_relaxed);
      }
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
    const Recording& r = state_->pass->recording;
    const Order& order = state_->pass->order;
    std::size_t count = graph::find_violations(r, order, limit).size();
    if (order.kind != OrderKind::levels) {
      count += graph::find_violations(r, graph::order_by_levels(r), limit).size();
    }
    if (order.kind != OrderKind::edges) {
      count += graph::find_violations(r, graph::order_by_edges(state_->dependencies), limit).size();
    }
    return static_cast<std::uint32_t>(count);
  });
}

const PlanReport& Plan::report() const noexcept {
  static const PlanReport empty;
  return state_ ? state_->report : empty;
}

}  // namespace onepass
