// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> norm_cuda_kernels() noexcept;  // where CUDA is compiled in

// Every op of the family. Weights that may be missing are empty views.
Status launch_norm(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Only a norm itself, perhaps of a sum, is quantized: whole blocks, with a weight of f32 or none.
bool accepts_norm(const DeviceInfo& device, const Dispatch& d);
// Up to norm_warp_dim elements a warp per row, else a block with a thread for eight elements, up to
// the device's limit.
inline constexpr std::uint32_t norm_warp_dim = 512;
Status launch_norm_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> norm_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
