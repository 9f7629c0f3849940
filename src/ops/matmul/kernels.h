// CPU kernels of this family, for the backend's table, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> matmul_cpu_kernels() noexcept;

// On the CPU launch.grid is {blocks of n, blocks of m, 1}; a tile is one block, n fastest.
inline constexpr std::uint32_t matmul_block_m = 32;

Status launch_matmul(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_matmul_affine(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Rows are (token, expert) pairs.
Status launch_matmul_id(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
