#include "ops/launch.h"

#include "onepass/step_state.h"
#include "ops/sample/kernels.h"
#include "ops/sample/params.h"

namespace onepass::ops {

Status launch_argmax(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const ArgmaxParams p = d.params_as<ArgmaxParams>();
  ONEPASS_TRY(expect_views(d, {matrix_bytes(d.format, p.rows, p.cols), product({p.rows, 4})}));
  launch.tiles = tiles_for(p.rows, p.cols);
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.rows, p.cols});
  return {};
}

Status launch_step_advance(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const StepAdvanceParams p = d.params_as<StepAdvanceParams>();
  ONEPASS_TRY(expect_views(d, {product({p.rows, 4}), StepState::size_bytes(1, 1)}));
  // One tile: rows may share a slot.
  launch.bytes_moved = product({p.rows, 4 + 2 * sizeof(StepRow) + 2 * sizeof(StepSlot)});
  return {};
}

}  // namespace onepass::ops
