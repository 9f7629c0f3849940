// A compiled pass, replayed with run().
//
//   ONEPASS_ASSIGN(const onepass::Plan plan, session.compile({.step = &step}));
//   ONEPASS_TRY(plan.run(onepass::SingleStep(token, 0).values()));
//   ONEPASS_TRY(plan.run());  // the device advanced the state itself
//   ONEPASS_ASSIGN(const onepass::Submission last, plan.run_async());
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onepass/device.h"
#include "onepass/encoder.h"
#include "onepass/graph.h"
#include "onepass/step_state.h"

namespace onepass {

struct PlanOptions {
  const StepState* step = nullptr;  // read by compile(); freed later, run() returns `stale`
  bool fuse = true;
  bool close_fusions = true;  // also rows within the error model
  bool alias_scratch = true;
  bool validate = true;
  Policy policy = Policy::exact;  // order of the dispatches; exact has the fewest barriers
  const char* label = "plan";
};

struct PlanReport {
  std::uint32_t dispatches = 0;    // after fuse and lower
  std::uint32_t levels = 0;        // groups of dispatches that need no order among them
  std::uint32_t barriers = 0;      // levels - 1: what a device with order `levels` issues
  std::uint32_t longest_path = 0;  // dispatches; no order has fewer levels
  std::uint32_t moved = 0;         // positions that hold another dispatch than was recorded there
  std::uint32_t edges = 0;         // dependencies without implied ones
  std::uint32_t hazard_edges = 0;  // before reduction
  std::uint32_t fences = 0;
  // What the device is given: barriers between levels, edges, or one dispatch after the other.
  OrderKind order = OrderKind::in_order;
  std::uint32_t edges_issued = 0;  // 0 unless the order is `edges`
  std::uint32_t programmatic =
      0;                    // of them: the later dispatch starts before the earlier has ended
  std::uint32_t added = 0;  // of them: for speed, no dependency asks for them
  FuseReport fused;
  std::uint64_t arena_bytes = 0;
  std::uint64_t scratch_bytes = 0;  // without aliasing
  std::uint64_t persistent_bytes = 0;
  std::uint64_t fuse_ns = 0, lower_ns = 0, hazards_ns = 0, memory_ns = 0, validate_ns = 0,
                record_ns = 0;
  bool validated = false;
};

// One launch of a plan.
struct PlanStep {
  // Bytes of the arena, the memory that scratch shares.
  struct ArenaUse {
    std::uint64_t begin = 0, end = 0;
    bool write = false;
    friend bool operator==(const ArenaUse&, const ArenaUse&) = default;
  };
  std::string kernel;       // "fence" for a fence
  std::string label;        // empty: none
  std::string group;        // "layer 3/attention"; empty: none
  std::uint32_t index = 0;  // as recorded, after fusing; DispatchSample has the same
  std::uint32_t level = 0;
  std::uint32_t tiles = 1;
  std::uint64_t bytes_moved = 0, flops = 0;
  std::vector<std::uint32_t> after;  // positions of the steps it waits for, without implied ones
  std::vector<ArenaUse> arena;

  bool is_fence() const noexcept { return kernel == "fence"; }
};

class PlanState;

// Shareable between threads: runs are queued in the order of their calls. A buffer freed since
// compile() makes run() return `stale`. Nothing is allocated per run.
class Plan {
 public:
  Plan() = default;
  explicit operator bool() const noexcept { return state_ != nullptr; }

  Status run() const;
  Status run(const StepValues& values) const;
  Result<Submission> run_async() const;
  Result<Submission> run_async(const StepValues& values) const;

  const PlanReport& report() const noexcept;
  // In the order the device gets them; none for want of memory.
  std::vector<PlanStep> steps() const;
  std::string to_dot() const;
  std::string to_json() const;
  // Pairs of dispatches that touch the same bytes without being ordered: in the order that the
  // device keeps, with barriers between levels and with edges; at most `limit` of each. 0: correct.
  Result<std::uint32_t> count_hazards(std::uint32_t limit = 1000) const;

  PlanState& state() const noexcept { return *state_; }
  explicit Plan(std::shared_ptr<PlanState> state) noexcept : state_(std::move(state)) {}

 private:
  std::shared_ptr<PlanState> state_;
};

}  // namespace onepass
