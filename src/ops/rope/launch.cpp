#include "ops/launch.h"

#include <algorithm>
#include <string>

#include "onepass/step_state.h"
#include "ops/rope/kernels.h"
#include "ops/rope/params.h"
#include "ops/shared/cache.h"

namespace onepass::ops {
namespace {

bool pairs_fit(const RopeAngles& p, std::uint32_t head_dim) noexcept {
  if (p.pairs == 0) return true;
  const bool known = (p.step == 2 && p.distance == 1) || (p.step == 1 && p.distance >= p.pairs);
  return known && std::uint64_t{p.pairs - 1} * p.step + p.distance < head_dim;
}

bool is_cache_type(std::uint32_t type) noexcept {
  return type == static_cast<std::uint32_t>(DType::f32) ||
         type == static_cast<std::uint32_t>(DType::f16) ||
         type == static_cast<std::uint32_t>(DType::q8_0);
}

}  // namespace

Status launch_rope(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const RopeParams p = d.params_as<RopeParams>();
  const std::uint64_t bytes = matrix_bytes(d.format, product({p.rows, p.heads}), p.head_dim);
  const std::uint64_t positions =
      p.positions_are_u32 != 0 ? product({p.rows, 4}) : StepState::size_bytes(1, 1);
  const std::uint64_t factors = d.n_views > 2 && d.views[2].bytes != 0 ? 4ull * p.angles.pairs : 0;
  ONEPASS_TRY(expect_views(d, {bytes, positions, factors, bytes}));
  if (!pairs_fit(p.angles, p.head_dim)) {
    return fail(ErrorCode::invalid_argument, "rope: a pair lies outside the head", d.file, d.line);
  }
  launch.tiles = tiles_for(p.rows, product({p.heads, p.head_dim}));
  launch.bytes_moved = d.views[0].bytes + d.views[2].bytes + d.views[3].bytes;
  launch.flops = product({p.rows, p.heads, p.angles.pairs, 6});
  return {};
}

Status launch_rope_store(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const RopeStoreParams p = d.params_as<RopeStoreParams>();
  const auto has = [&d](std::size_t i) { return i < d.n_views && d.views[i].bytes != 0; };
  const bool q = has(0), k = has(2), v = has(4);
  const auto refuse = [&d](const char* why) {
    return fail(ErrorCode::invalid_argument, std::string("rope_store: ") + why, d.file, d.line);
  };
  if (!is_cache_type(p.k_type) || !is_cache_type(p.v_type)) return refuse("no such cache type");
  const std::uint64_t q_bytes =
      q ? matrix_bytes(DType::f32, product({p.rows, p.heads}), p.head_dim) : 0;
  const std::uint64_t kv_bytes =
      matrix_bytes(DType::f32, product({p.rows, p.kv_heads}), p.head_dim);
  const std::uint64_t norm = product({p.head_dim, 4});
  const std::uint64_t cache_rows = product({p.slots, p.kv_heads, p.capacity});
  const auto cache = [&](std::uint32_t type) {
    return matrix_bytes(static_cast<DType>(type), cache_rows, p.head_dim);
  };
  ONEPASS_TRY(expect_views(
      d, {q_bytes, has(1) ? norm : 0, k ? kv_bytes : 0, has(3) ? norm : 0, v ? kv_bytes : 0,
          StepState::size_bytes(1, 1), has(6) ? 4ull * p.angles.pairs : 0, 0, q_bytes,
          k ? cache(p.k_type) : 0, v ? cache(p.v_type) : 0}));
  if (!q && !k && !v) return refuse("neither q nor k nor v");
  if (!pairs_fit(p.angles, p.head_dim)) return refuse("a pair lies outside the head");
  if (p.head_dim == 0 || p.head_dim > 512) return refuse("heads of 0 or of more than 512 elements");
  if ((k || v) && p.capacity == 0) return refuse("a cache without capacity");
  if (has(7) && (p.capacity != page_positions || p.ring != 0)) {
    return refuse("a page list needs a cache of 256 positions that is no ring");
  }
  launch.tiles =
      tiles_for(p.rows, product({std::uint64_t{p.heads} + 2ull * p.kv_heads, p.head_dim}));
  launch.bytes_moved = 2 * q_bytes + 2 * (k ? kv_bytes : 0) + 2 * (v ? kv_bytes : 0);
  launch.flops = product({p.rows, std::uint64_t{p.heads} + p.kv_heads, p.head_dim, 8});
  return {};
}

Status launch_rope_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_rope(device, d, launch));
  const RopeParams p = d.params_as<RopeParams>();
  const std::uint32_t units = p.head_dim - p.angles.pairs;  // pairs and what stays
  const std::uint32_t threads = std::clamp((units + 31) / 32 * 32, 32u, 128u);
  const std::uint32_t parts = units / threads + (units % threads != 0 ? 1 : 0);
  if (parts > max_cuda_grid_y) {
    return fail(ErrorCode::limit, "rope: heads of " + std::to_string(p.head_dim) + " elements",
                d.file, d.line);
  }
  const std::uint32_t few = std::max(256u / std::min(std::max(p.rows, 1u), 256u), 1u);
  launch.grid = {std::min(p.rows, max_cuda_grid_x), std::max(parts, 1u),
                 std::clamp(p.heads, 1u, few)};
  launch.group = {threads, 1, 1};
  return {};
}

Status launch_rope_store_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_rope_store(device, d, launch));
  const RopeStoreParams p = d.params_as<RopeStoreParams>();
  const std::uint64_t heads = (d.views[0].bytes != 0 ? p.heads : 0) +
                              (d.views[2].bytes != 0 ? p.kv_heads : 0) +
                              (d.views[4].bytes != 0 ? std::uint64_t{p.kv_heads} : 0);
  const std::uint64_t warps = product({p.rows, heads});
  // Few heads: a group each, so that they run beside each other. Many: a warp has several, as their
  // angles' frequencies cost more than turning a head.
  cover(launch, product({warps, 32}), warps <= 256 ? 32 : 128);
  const std::uint32_t most = std::max(device.compute_units, 1u) * 8;
  launch.grid[0] = std::min(launch.grid[0], std::max(most, 256u));
  return {};
}

}  // namespace onepass::ops
