#include "ops/launch.h"

#include <algorithm>
#include <string>

#include "onepass/step_state.h"
#include "ops/kv_cache/kernels.h"
#include "ops/kv_cache/params.h"
#include "ops/shared/cache.h"

namespace onepass::ops {

Status launch_kv_store(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const KvStoreParams p = d.params_as<KvStoreParams>();
  const std::uint64_t rows = product({p.rows, p.kv_heads});
  const std::uint64_t x = matrix_bytes(DType::f32, rows, p.head_dim);
  const std::uint64_t cache =
      matrix_bytes(d.format, product({p.slots, p.kv_heads, p.capacity}), p.head_dim);
  ONEPASS_TRY(expect_views(d, {x, StepState::size_bytes(1, 1), 0, cache}));
  const bool paged = d.views[2].bytes != 0;
  if (p.capacity == 0 || (paged && (p.capacity != page_positions || p.ring != 0))) {
    return fail(ErrorCode::invalid_argument, "kv_store: params do not fit together", d.file,
                d.line);
  }
  launch.tiles = tiles_for(p.rows, product({p.kv_heads, p.head_dim}));
  launch.bytes_moved = x + matrix_bytes(d.format, rows, p.head_dim);
  return {};
}

Status launch_kv_copy(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const KvCopyParams p = d.params_as<KvCopyParams>();
  const std::uint64_t slot = matrix_bytes(d.format, product({p.kv_heads, p.capacity}), p.head_dim);
  ONEPASS_TRY(expect_views(d, {slot, slot}));
  if (p.positions > p.capacity) {
    return fail(ErrorCode::invalid_argument, "kv_copy: more positions than the cache has", d.file,
                d.line);
  }
  launch.tiles = tiles_for(p.kv_heads, product({p.positions, p.head_dim}));
  launch.bytes_moved = 2 * matrix_bytes(d.format, product({p.kv_heads, p.positions}), p.head_dim);
  return {};
}

Status launch_kv_store_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_kv_store(device, d, launch));
  const KvStoreParams p = d.params_as<KvStoreParams>();
  cover(launch, product({p.rows, p.kv_heads, 32}), 128);
  return {};
}

Status launch_kv_copy_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_kv_copy(device, d, launch));
  const KvCopyParams p = d.params_as<KvCopyParams>();
  if (p.kv_heads > max_cuda_grid_y) {
    return fail(ErrorCode::limit,
                "kv_copy: " + std::to_string(p.kv_heads) + " heads, at most " +
                    std::to_string(max_cuda_grid_y),
                d.file, d.line);
  }
  cover(launch, matrix_bytes(d.format, p.positions, p.head_dim) / 16, 256);
  launch.grid[0] = std::min(launch.grid[0], 1024u);
  launch.grid[1] = std::max(p.kv_heads, 1u);
  return {};
}

}  // namespace onepass::ops
