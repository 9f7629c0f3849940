#include "ops/launch.h"

#include <algorithm>

#include "ops/softmax/kernels.h"
#include "ops/softmax/params.h"

namespace onepass::ops {

Status launch_softmax(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const SoftmaxParams p = d.params_as<SoftmaxParams>();
  const std::uint64_t bytes = matrix_bytes(d.format, p.rows, p.cols);
  const std::uint64_t mask =
      matrix_bytes(p.mask_is_f32 != 0 ? DType::f32 : DType::bf16, p.mask_rows, p.cols);
  ONEPASS_TRY(expect_views(d, {bytes, mask, bytes}));
  launch.tiles = tiles_for(p.rows, p.cols);
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.rows, p.cols, 20});
  return {};
}

Status launch_softmax_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_softmax(device, d, launch));
  const SoftmaxParams p = d.params_as<SoftmaxParams>();
  launch.grid = {std::clamp(p.rows, 1u, max_cuda_grid_x), 1, 1};
  const std::uint64_t warps = (std::uint64_t{p.cols} + 127) / 128;
  launch.group = {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(warps, 1, 32) * 32), 1, 1};
  return {};
}

}  // namespace onepass::ops
