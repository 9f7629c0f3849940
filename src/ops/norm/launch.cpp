#include "ops/launch.h"

#include <algorithm>
#include <span>
#include <string>

#include "ops/norm/kernels.h"
#include "ops/norm/params.h"

namespace onepass::ops {
namespace {

// Every op of the family.
struct NormShape {
  std::uint32_t form, rows, dim;
  bool weight_is_f32;
};
NormShape norm_shape(const Dispatch& d) {
  if (d.op == Op::rms_norm) {
    const auto p = d.params_as<RmsNormParams>();
    return {p.form, p.rows, p.dim, p.weight_is_f32 != 0};
  }
  if (d.op == Op::layer_norm) {
    const auto p = d.params_as<LayerNormParams>();
    return {0, p.rows, p.dim, p.weight_is_f32 != 0};
  }
  const auto p = d.params_as<L2NormParams>();  // of ops with x and out alone
  return {0, p.rows, p.dim, true};
}

// What an optional view needs: nothing when it is empty.
std::uint64_t if_bound(const Dispatch& d, std::size_t view, std::uint64_t bytes) noexcept {
  return view < d.n_views && view < max_views && d.views[view].bytes == 0 ? 0 : bytes;
}

}  // namespace

Status launch_norm(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const NormShape p = norm_shape(d);
  const std::uint64_t data = matrix_bytes(d.format, p.rows, p.dim);
  const std::uint64_t weight = matrix_bytes(p.weight_is_f32 ? DType::f32 : d.format.type, 1, p.dim);
  const std::uint64_t weight_if = if_bound(d, 1, weight);
  if (d.op == Op::layer_norm) {
    ONEPASS_TRY(expect_views(d, {data, weight_if, if_bound(d, 2, weight), data}));
  } else if (d.op == Op::rms_norm) {
    const std::uint32_t other = p.form & (form_sum | form_product | form_residual);
    const bool quantized = (p.form & form_quantized) != 0;
    if ((p.form & ~norm_forms) != 0 || (other & (other - 1)) != 0) {
      return fail(ErrorCode::unsupported,
                  "rms_norm: forms " + std::to_string(p.form) + " do not fit together", d.file,
                  d.line);
    }
    const bool also = other == form_sum || (d.n_views > norm_also && d.views[norm_also].bytes != 0);
    const bool plain = quantized && d.n_views > norm_plain && d.views[norm_plain].bytes != 0;
    const std::uint64_t needs[] = {data,
                                   weight_if,
                                   quantized ? matrix_bytes(DType::q8a, p.rows, p.dim) : data,
                                   other != 0 ? data : 0,
                                   also ? data : 0,
                                   plain ? data : 0};
    ONEPASS_TRY(expect_views(d, std::span<const std::uint64_t>(needs)));
  } else {
    ONEPASS_TRY(expect_views(d, {data, data}));
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

bool accepts_norm(const DeviceInfo&, const Dispatch& d) {
  const auto p = d.params_as<RmsNormParams>();
  return (p.form & form_quantized) == 0 ||
         ((p.form & (form_product | form_residual)) == 0 && p.dim % 32 == 0 &&
          (p.weight_is_f32 != 0 || d.views[norm_weight_slot].bytes == 0));
}

Status launch_norm_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_norm(device, d, launch));
  const NormShape p = norm_shape(d);
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
