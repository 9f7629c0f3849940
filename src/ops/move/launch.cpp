#include "ops/launch.h"

#include <algorithm>
#include <string>

#include "ops/launch_split.h"
#include "ops/move/kernels.h"
#include "ops/move/params.h"
#include "ops/shared/halves.h"

namespace onepass::ops {

Status launch_copy(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const CopyParams p = d.params_as<CopyParams>();
  const std::uint64_t bytes = join(p.bytes_lo, p.bytes_hi);
  ONEPASS_TRY(expect_views(d, {bytes, bytes}));
  launch.tiles = tiles_for(bytes / 4, 1);
  launch.bytes_moved = product({bytes, 2});
  return {};
}

Status lower_gather(const DeviceInfo& device, const Dispatch& d, LaunchList& launches) {
  const GatherParams p = d.params_as<GatherParams>();
  split_table<GatherParams>(device, d, p.source_rows, 1, {p.row_bytes}, launches);
  return {};
}

Status launch_gather(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const GatherParams p = d.params_as<GatherParams>();
  const std::uint64_t out = product({p.rows, p.row_bytes});
  const std::uint32_t rows = p.bound_rows != 0 ? p.bound_rows : p.source_rows;
  ONEPASS_TRY(expect_views(d, {product({rows, p.row_bytes}), product({p.rows, 4}), out}));
  if (p.source_rows == 0 || is_packed(d.format)) {
    return fail(ErrorCode::invalid_argument, "gather: x has no rows to take", d.file, d.line);
  }
  launch.tiles = tiles_for(p.rows, p.row_bytes / 4 + 1);
  launch.bytes_moved = product({out, 2});
  return {};
}

Status launch_transpose(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const TransposeParams p = d.params_as<TransposeParams>();
  const std::uint64_t bytes = product({p.batch, p.rows, p.cols, p.unit});
  ONEPASS_TRY(expect_views(d, {bytes, bytes}));
  const std::uint64_t strips = p.rows / transpose_strip + (p.rows % transpose_strip != 0 ? 1 : 0);
  launch.tiles =
      tiles_for(product({p.batch, strips}), product({transpose_strip, p.cols, p.unit}) / 4 + 1);
  launch.bytes_moved = product({bytes, 2});
  return {};
}

Status launch_columns(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const ColumnsParams p = d.params_as<ColumnsParams>();
  if (std::uint64_t{p.from} + p.bytes > p.from_stride ||
      std::uint64_t{p.to} + p.bytes > p.to_stride) {
    return fail(ErrorCode::invalid_argument,
                std::string(info(d.op).name) + ": params name columns beyond the row", d.file,
                d.line);
  }
  ONEPASS_TRY(expect_views(d, {product({p.rows, p.from_stride}), product({p.rows, p.to_stride})}));
  launch.tiles = tiles_for(p.rows, p.bytes / 4 + 1);
  launch.bytes_moved = product({p.rows, p.bytes, 2});
  return {};
}

Status launch_concat(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const ConcatParams p = d.params_as<ConcatParams>();
  const std::uint64_t row = std::uint64_t{p.a_bytes} + p.b_bytes;
  const std::uint64_t out = product({p.rows, row});
  ONEPASS_TRY(expect_views(d, {product({p.rows, p.a_bytes}), product({p.rows, p.b_bytes}), out}));
  launch.tiles = tiles_for(p.rows, row / 4 + 1);
  launch.bytes_moved = product({out, 2});
  return {};
}

namespace {

// Threads for units of 16 bytes; kernels with narrower units go on in steps of the grid.
void cover_bytes(Launch& launch, std::uint64_t bytes) noexcept {
  cover(launch, bytes / 16 + (bytes % 16 != 0 ? 1 : 0), 256);
}

}  // namespace

Status launch_copy_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_copy(device, d, launch));
  const CopyParams p = d.params_as<CopyParams>();
  cover_bytes(launch, join(p.bytes_lo, p.bytes_hi));
  return {};
}

Status launch_gather_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_gather(device, d, launch));
  const GatherParams p = d.params_as<GatherParams>();
  cover_bytes(launch, product({p.rows, p.row_bytes}));
  return {};
}

Status launch_transpose_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_transpose(device, d, launch));
  const TransposeParams p = d.params_as<TransposeParams>();
  const auto squares = [](std::uint32_t n) { return n / 32 + (n % 32 != 0 ? 1u : 0u); };
  launch.grid = {std::max(squares(p.cols), 1u), std::clamp(squares(p.rows), 1u, max_cuda_grid_y),
                 std::clamp(p.batch, 1u, max_cuda_grid_y)};
  launch.group = {256, 1, 1};
  return {};
}

Status launch_columns_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_columns(device, d, launch));
  const ColumnsParams p = d.params_as<ColumnsParams>();
  cover_bytes(launch, product({p.rows, p.bytes}));
  return {};
}

Status launch_concat_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_concat(device, d, launch));
  const ConcatParams p = d.params_as<ConcatParams>();
  cover_bytes(launch, product({p.rows, std::uint64_t{p.a_bytes} + p.b_bytes}));
  return {};
}

}  // namespace onepass::ops
