// What Plan shares, and how it is compiled.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/device_state.h"
#include "graph/nodes.h"
#include "graph/order.h"
#include "onepass/plan.h"

namespace onepass {

class PlanState {
 public:
  // `arena` is the executor's, grown where it is too small.
  static Result<std::shared_ptr<PlanState>> compile(NodeList& recorded, const PlanOptions& options,
                                                    std::shared_ptr<ArenaBlock>& arena);
  Result<Submission> submit(const StepValues* values);

  std::shared_ptr<DeviceState> device;
  std::shared_ptr<RecordedPass> pass;
  graph::Dependencies dependencies;  // of the launches, for reports
  PlanReport report;
  std::uint32_t max_rows = 0, max_slots = 0;  // of the step state; 0: there is none
  std::mutex step_mutex;                      // guards step_bytes
  std::vector<std::byte> step_bytes;          // as the device will hold them
};

}  // namespace onepass
