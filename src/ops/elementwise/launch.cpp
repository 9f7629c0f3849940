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
    const std::uint64_t b_bytes =
        p.b_elements != 0 ? matrix_bytes(d.format, 1, p.b_elements) : bytes;
    ONEPASS_TRY(expect_views(d, {bytes, b_bytes, bytes}));
  } else {
    ONEPASS_TRY(expect_views(d, {bytes, bytes}));
  }
  launch.tiles = tiles_for(n, 1);
  launch.bytes_moved = view_bytes(d);
  const bool cheap = d.op == Op::add || d.op == Op::mul || d.op == Op::scale;
  launch.flops = cheap ? n : product({n, 20});
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

Status launch_cast(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const CastParams p = d.params_as<CastParams>();
  const std::uint64_t n = join(p.n_lo, p.n_hi);
  const auto to = static_cast<DType>(p.to);
  if (p.to >= static_cast<std::uint32_t>(DType::count_) ||
      (to != DType::f32 && to != DType::f16 && to != DType::bf16)) {
    return fail(ErrorCode::invalid_argument, "cast: params name no type for out", d.file, d.line);
  }
  ONEPASS_TRY(expect_views(d, {matrix_bytes(d.format, 1, n), matrix_bytes(to, 1, n)}));
  launch.tiles = tiles_for(n, 1);
  launch.bytes_moved = view_bytes(d);
  return {};
}

Status launch_cast_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_cast(device, d, launch));
  const CastParams p = d.params_as<CastParams>();
  cover(launch, join(p.n_lo, p.n_hi) / 4 + 1, 256);
  return {};
}

}  // namespace onepass::ops
