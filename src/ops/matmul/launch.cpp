#include "ops/launch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"

namespace onepass::ops {
namespace {

// About 32,768 weights per block: long enough to hide the cost of a tile, short enough to spread.
Status set_blocks(const Dispatch& d, std::uint64_t n, std::uint64_t k, std::uint64_t blocks_m,
                  Launch& launch) {
  const std::uint64_t rows =
      std::clamp<std::uint64_t>(32768 / std::max<std::uint64_t>(k, 1), 4, 64);
  const std::uint64_t blocks_n = std::max<std::uint64_t>((n + rows - 1) / rows, 1);
  const std::uint64_t tiles = product({blocks_n, std::max<std::uint64_t>(blocks_m, 1)});
  if (tiles > std::numeric_limits<std::uint32_t>::max()) {
    return fail(ErrorCode::unsupported, std::string(info(d.op).name) + ": too many rows", d.file,
                d.line);
  }
  launch.grid = {static_cast<std::uint32_t>(blocks_n), static_cast<std::uint32_t>(tiles / blocks_n),
                 1};
  launch.tiles = static_cast<std::uint32_t>(tiles);
  return {};
}

}  // namespace

Status launch_matmul(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const MatmulParams p = d.params_as<MatmulParams>();
  ONEPASS_TRY(expect_views(d, {matrix_bytes(DType::f32, p.m, p.k), matrix_bytes(d.format, p.n, p.k),
                               matrix_bytes(DType::f32, p.m, p.n)}));
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.m, p.n, p.k, 2});
  return set_blocks(d, p.n, p.k, (std::uint64_t{p.m} + matmul_block_m - 1) / matmul_block_m,
                    launch);
}

Status launch_matmul_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch) {
  ONEPASS_TRY(launch_matmul(device, d, launch));
  const MatmulParams p = d.params_as<MatmulParams>();
  const auto groups = [](std::uint64_t n, std::uint32_t size, std::uint32_t max) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>((n + size - 1) / size, max));
  };
  launch.grid = {groups(p.n, matmul_cuda_warps, max_cuda_grid_x),
                 groups(p.m, matmul_cuda_tile_m, max_cuda_grid_y), 1};
  launch.group = {32 * matmul_cuda_warps, 1, 1};
  return {};
}

Status launch_matmul_affine(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const MatmulAffineParams p = d.params_as<MatmulAffineParams>();
  if (p.group_size == 0 || p.group_size % 32 != 0 || 128 % p.group_size != 0 ||
      p.k % p.group_size != 0 || p.bits == 0 || p.bits > 8 || p.bits == 5 || p.bits == 7 ||
      p.bits == 1) {
    return fail(ErrorCode::unsupported,
                "matmul_affine: k " + std::to_string(p.k) + " with " + std::to_string(p.bits) +
                    " bits in groups of " + std::to_string(p.group_size),
                d.file, d.line);
  }
  const std::uint64_t groups = matrix_bytes(d.format, p.n, p.k / p.group_size);
  ONEPASS_TRY(expect_views(
      d, {matrix_bytes(DType::f32, p.m, p.k), product({p.n, std::uint64_t{p.k} * p.bits / 8}),
          groups, groups, matrix_bytes(DType::f32, p.m, p.n)}));
  launch.bytes_moved = view_bytes(d);
  launch.flops = product({p.m, p.n, p.k, 2});
  return set_blocks(d, p.n, p.k, (std::uint64_t{p.m} + matmul_block_m - 1) / matmul_block_m,
                    launch);
}

Status launch_matmul_id(const DeviceInfo&, const Dispatch& d, Launch& launch) {
  const MatmulIdParams p = d.params_as<MatmulIdParams>();
  const std::uint64_t pairs = product({p.tokens, p.used});
  ONEPASS_TRY(expect_views(
      d, {matrix_bytes(DType::f32, p.tokens, p.k),
          matrix_bytes(d.format, product({p.experts, p.n}), p.k),
          matrix_bytes(DType::u32, p.tokens, p.used), matrix_bytes(DType::f32, pairs, p.n)}));
  // Every pair may name another expert, as long as there are that many.
  launch.bytes_moved =
      d.views[0].bytes + d.views[2].bytes + d.views[3].bytes +
      matrix_bytes(d.format, product({std::min<std::uint64_t>(pairs, p.experts), p.n}), p.k);
  launch.flops = product({pairs, p.n, p.k, 2});
  return set_blocks(d, p.n, p.k, pairs, launch);
}

}  // namespace onepass::ops
