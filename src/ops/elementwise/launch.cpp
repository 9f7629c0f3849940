#include "ops/launch.h"

#include <algorithm>

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

Status launch_elementwise_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_elementwise(device, d, launch));
  const ElementwiseParams p = d.params_as<ElementwiseParams>();
  constexpr std::uint64_t group_threads = 256, group_elements = 4 * group_threads;
  const std::uint64_t n = join(p.n_lo, p.n_hi);
  const std::uint64_t groups = n / group_elements + (n % group_elements != 0 ? 1 : 0);
  launch.grid = {static_cast<std::uint32_t>(std::min<std::uint64_t>(groups, max_cuda_grid_x)), 1,
                 1};
  launch.group = {group_threads, 1, 1};
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
