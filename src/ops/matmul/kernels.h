// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> matmul_cpu_kernels() noexcept;
std::span<const KernelRow> matmul_cuda_kernels() noexcept;  // where CUDA is compiled in

// On the CPU launch.grid is {blocks of n, blocks of m, 1}; a tile is one block, n fastest.
inline constexpr std::uint32_t matmul_block_m = 32;

Status launch_matmul(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_matmul_affine(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Rows are (token, expert) pairs.
Status launch_matmul_id(const DeviceInfo& device, const Dispatch& d, Launch& launch);

// Grid {groups of n, groups of m, 1}: a warp computes one column of up to matmul_cuda_tile_m rows.
inline constexpr std::uint32_t matmul_cuda_warps = 4;
inline constexpr std::uint32_t matmul_cuda_tile_m = 4;
Status launch_matmul_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
