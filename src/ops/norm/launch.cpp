#include "ops/launch.h"

#include <algorithm>

#include "ops/norm/kernels.h"
#include "ops/norm/params.h"

namespace onepass::ops {

Status launch_rms_norm(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const RmsNormParams p = d.params_as<RmsNormParams>();
  const std::uint64_t data = matrix_bytes(d.format, p.rows, p.dim);
  const std::uint64_t weight = matrix_bytes(p.weight_is_f32 != 0 ? DType::f32 : d.format, 1, p.dim);
  if (d.op == Op::rms_norm_no_scale) {
    ONEPASS_TRY(expect_views(d, {data, data}));
  } else if (d.op == Op::rms_norm) {
    ONEPASS_TRY(expect_views(d, {data, weight, data}));
  } else {
    ONEPASS_TRY(expect_views(d, {data, weight, data, data}));
  }
  launch.tiles = tiles_for(p.rows, p.dim);
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.rows, p.dim, d.op == Op::rms_norm_no_scale ? 3u : 4u});
  return {};
}

Status launch_rms_norm_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_rms_norm(device, d, launch));
  const RmsNormParams p = d.params_as<RmsNormParams>();
  launch.grid = {std::min(p.rows, max_cuda_grid_x), 1, 1};
  const std::uint64_t warps = (std::uint64_t{p.dim} + 127) / 128;
  launch.group = {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(warps, 1, 32) * 32), 1, 1};
  return {};
}

}  // namespace onepass::ops
