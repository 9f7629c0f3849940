#include "ops/launch.h"

#include <algorithm>

#include "ops/norm/kernels.h"
#include "ops/norm/params.h"

namespace onepass::ops {
namespace {

// What an optional view needs: nothing when it is empty.
std::uint64_t if_bound(const Dispatch& d, std::size_t view, std::uint64_t bytes) noexcept {
  return view < d.n_views && view < max_views && d.views[view].bytes == 0 ? 0 : bytes;
}

}  // namespace

Status launch_norm(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  static_assert(sizeof(RmsNormParams) == sizeof(LayerNormParams));
  const RmsNormParams p = d.params_as<RmsNormParams>();
  const std::uint64_t data = matrix_bytes(d.format, p.rows, p.dim);
  const std::uint64_t weight = matrix_bytes(p.weight_is_f32 != 0 ? DType::f32 : d.format, 1, p.dim);
  const bool to_q8a = d.op == Op::rms_norm_q || d.op == Op::add_rms_norm_q;
  const std::uint64_t out = to_q8a ? matrix_bytes(DType::q8a, p.rows, p.dim) : data;
  switch (d.op) {
    case Op::rms_norm_no_scale:
    case Op::l2_norm:
      ONEPASS_TRY(expect_views(d, {data, data}));
      break;
    case Op::rms_norm:
      ONEPASS_TRY(expect_views(d, {data, weight, data}));
      break;
    case Op::rms_norm_q:
      ONEPASS_TRY(expect_views(d, {data, if_bound(d, 1, weight), out}));
      break;
    case Op::rms_norm_mul:
      ONEPASS_TRY(expect_views(d, {data, weight, data, data}));
      break;
    case Op::norm_add:
      ONEPASS_TRY(expect_views(d, {data, if_bound(d, 1, weight), data, data}));
      break;
    case Op::layer_norm:
      ONEPASS_TRY(expect_views(d, {data, if_bound(d, 1, weight), if_bound(d, 2, weight), data}));
      break;
    default:  // add_rms_norm, add_rms_norm_q
      ONEPASS_TRY(expect_views(d, {data, data, if_bound(d, 2, weight), data, out}));
      break;
  }
  if (p.dim == 0) {
    return fail(ErrorCode::invalid_argument, "norm: rows of 0 elements, expected at least 1",
                d.file, d.line);
  }
  launch.tiles = tiles_for(p.rows, p.dim);
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.rows, p.dim, 2u + (d.n_views > 2 ? d.n_views - 1u : 1u)});
  return {};
}

Status launch_norm_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_norm(device, d, launch));
  const RmsNormParams p = d.params_as<RmsNormParams>();
  if (p.dim <= norm_warp_dim) {
    const std::uint32_t warps = std::clamp<std::uint32_t>(p.rows, 1, 4);
    launch.grid = {p.rows / warps + (p.rows % warps != 0 ? 1 : 0), 1, 1};
    launch.group = {32 * warps, 1, 1};
    return {};
  }
  launch.grid = {std::min(p.rows, max_cuda_grid_x), 1, 1};
  const std::uint64_t warps = (std::uint64_t{p.dim} + 255) / 256;
  launch.group = {static_cast<std::uint32_t>(std::min<std::uint64_t>(warps, 32) * 32), 1, 1};
  return {};
}

}  // namespace onepass::ops
