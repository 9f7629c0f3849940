#include "ops/launch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "onepass/step_state.h"
#include "ops/sample/kernels.h"
#include "ops/sample/launch_cuda.h"
#include "ops/sample/params.h"

namespace onepass::ops {
namespace {

// The k largest of each row.
Status launch_select(const Dispatch& d, std::uint64_t rows, std::uint64_t cols, std::uint64_t k,
                     Launch& launch) {
  const std::uint64_t chunks = cols / select_chunk + (cols % select_chunk != 0 ? 1 : 0);
  launch.grid[0] = static_cast<std::uint32_t>(std::max<std::uint64_t>(chunks, 1));
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({rows, cols});
  if (chunks <= 1) {
    launch.tiles = tiles_for(rows, cols);
    return {};
  }
  const std::uint64_t tiles = product({rows, chunks});
  if (tiles > std::numeric_limits<std::uint32_t>::max()) {
    return fail(ErrorCode::limit,
                std::string(info(d.op).name) + ": " + std::to_string(tiles) +
                    " parts of rows, at most 4294967295",
                d.file, d.line);
  }
  launch.tiles = static_cast<std::uint32_t>(tiles);
  launch.scratch_bytes = k > select_few ? product({rows, cols, 2 * sizeof(std::uint64_t)})
                                        : product({tiles, k, sizeof(std::uint64_t)});
  launch.persistent_bytes = product({rows, 4});
  return {};
}

}  // namespace

Status launch_argmax(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const ArgmaxParams p = d.params_as<ArgmaxParams>();
  ONEPASS_TRY(expect_views(d, {matrix_bytes(d.format, p.rows, p.cols), product({p.rows, 4})}));
  return launch_select(d, p.rows, p.cols, 1, launch);
}

Status launch_argsort(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const ArgmaxParams p = d.params_as<ArgmaxParams>();
  ONEPASS_TRY(
      expect_views(d, {matrix_bytes(d.format, p.rows, p.cols), product({p.rows, p.cols, 4})}));
  return launch_select(d, p.rows, p.cols, p.cols, launch);
}

Status launch_top_k(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const TopKParams p = d.params_as<TopKParams>();
  const std::uint64_t out = product({p.rows, p.k, 4});
  ONEPASS_TRY(expect_views(d, {matrix_bytes(d.format, p.rows, p.cols), out, out}));
  if (p.k == 0 || p.k > p.cols) {
    return fail(ErrorCode::invalid_argument,
                "top_k: params ask for " + std::to_string(p.k) + " of " + std::to_string(p.cols),
                d.file, d.line);
  }
  return launch_select(d, p.rows, p.cols, p.k, launch);
}

Status launch_sample(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const SampleParams p = d.params_as<SampleParams>();
  ONEPASS_TRY(expect_views(d, {matrix_bytes(d.format, p.rows, p.cols), StepState::size_bytes(1, 1),
                               product({p.rows, 4})}));
  if (!(p.temperature >= 0.0f)) {
    return fail(ErrorCode::invalid_argument, "sample: params have a negative temperature", d.file,
                d.line);
  }
  return launch_select(d, p.rows, p.cols, sample_keeps(p.cols, p.top_k, p.temperature), launch);
}

Status launch_step_advance(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const StepAdvanceParams p = d.params_as<StepAdvanceParams>();
  ONEPASS_TRY(expect_views(
      d, {product({p.rows, 4}), StepState::size_bytes(1, 1), product({p.rows, p.history, 4})}));
  // One tile: rows may share a slot.
  launch.bytes_moved = product({p.rows, 4 + 2 * sizeof(StepRow) + 2 * sizeof(StepSlot)});
  return {};
}

namespace {

// Whole warps for up to four numbers each.
std::uint32_t threads_for(std::uint64_t cols, std::uint32_t most) noexcept {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>((cols + 127) / 128 * 32, 32, most));
}

void launch_largest_cuda(std::uint32_t rows, std::uint32_t cols, Launch& launch) noexcept {
  constexpr std::uint32_t most = 256;
  const std::uint64_t parts = (std::uint64_t{cols} + 8 * most - 1) / (8 * most);
  const std::uint32_t few = 256 / std::clamp(rows, 1u, 256u);
  launch.grid = {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(parts, 1, few)),
                 std::clamp(rows, 1u, max_cuda_grid_y), 1};
  launch.group = {threads_for(cols, most), 1, 1};
  const bool several = launch.grid[0] > 1;
  launch.scratch_bytes = several ? product({rows, launch.grid[0], 8}) : 0;
  launch.persistent_bytes = several ? product({rows, 4}) : 0;
}

void launch_select_cuda(std::uint32_t rows, std::uint32_t cols, std::uint32_t k,
                        Launch& launch) noexcept {
  launch.grid = {std::max(rows, 1u), 1, 1};
  launch.group = {threads_for(cols, 1024), 1, 1};
  launch.shared_bytes = select_shared_bytes;
  launch.scratch_bytes = launch.persistent_bytes = 0;
  if (k > select_shared) {
    launch.grid[0] = std::min(launch.grid[0], select_sorts);
    launch.scratch_bytes = product({launch.grid[0], cols, 2 * sizeof(std::uint64_t)});
  }
}

}  // namespace

Status launch_argmax_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_argmax(device, d, launch));
  const ArgmaxParams p = d.params_as<ArgmaxParams>();
  launch_largest_cuda(p.rows, p.cols, launch);
  return {};
}

Status launch_argsort_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_argsort(device, d, launch));
  const ArgmaxParams p = d.params_as<ArgmaxParams>();
  launch_select_cuda(p.rows, p.cols, p.cols, launch);
  return {};
}

Status launch_top_k_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_top_k(device, d, launch));
  const TopKParams p = d.params_as<TopKParams>();
  launch_select_cuda(p.rows, p.cols, p.k, launch);
  return {};
}

Status launch_sample_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_sample(device, d, launch));
  const SampleParams p = d.params_as<SampleParams>();
  if (p.temperature == 0.0f) {
    launch_largest_cuda(p.rows, p.cols, launch);
  } else {
    launch_select_cuda(p.rows, p.cols, sample_keeps(p.cols, p.top_k, p.temperature), launch);
  }
  return {};
}

Status launch_step_advance_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_step_advance(device, d, launch));
  cover(launch, d.params_as<StepAdvanceParams>().rows, 128);
  return {};
}

}  // namespace onepass::ops
