// CPU kernels of this family, for the backend's table, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> move_cpu_kernels() noexcept;

Status launch_copy(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Of x larger than one binding: launches over ranges of its rows.
Status lower_gather(const DeviceInfo& device, const Dispatch& d, LaunchList& launches);
Status launch_gather(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// One unit of grid[0] is a strip of transpose_strip rows.
inline constexpr std::uint32_t transpose_strip = 32;
Status launch_transpose(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_columns(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_concat(const DeviceInfo& device, const Dispatch& d, Launch& launch);

std::span<const KernelRow> move_cuda_kernels() noexcept;  // where CUDA is compiled in
// A thread per 16 bytes, which they are where everything is aligned; transpose: squares of 32.
Status launch_copy_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_gather_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_transpose_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_columns_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_concat_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> move_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
