#include "ops/launch.h"

#include "ops/elementwise/kernels.h"
#include "ops/elementwise/params.h"
#include "ops/shared/halves.h"

namespace onepass::ops {

Status launch_elementwise(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const ElementwiseParams p = d.params_as<ElementwiseParams>();
  const std::uint64_t n = join(p.n_lo, p.n_hi);
  const std::uint64_t bytes = matrix_bytes(d.format, 1, n);
  if (info(d.op).n_slots == 3) {
    ONEPASS_TRY(expect_views(d, {bytes, bytes, bytes}));
  } else {
    ONEPASS_TRY(expect_views(d, {bytes, bytes}));
  }
  launch.tiles = tiles_for(n, 1);
  launch.bytes_moved = view_bytes(d);
  launch.flops = d.op == Op::add || d.op == Op::mul ? n : product({n, 20});
  return {};
}

Status launch_copy(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const CopyParams p = d.params_as<CopyParams>();
  const std::uint64_t bytes = join(p.bytes_lo, p.bytes_hi);
  ONEPASS_TRY(expect_views(d, {bytes, bytes}));
  launch.tiles = tiles_for(bytes / 4, 1);
  launch.bytes_moved = product({bytes, 2});
  return {};
}

}  // namespace onepass::ops
