// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> elementwise_cuda_kernels() noexcept;    // where CUDA is compiled in
std::span<const KernelRow> elementwise_vulkan_kernels() noexcept;  // where Vulkan is

Status launch_elementwise(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_cast(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Groups of 256 threads, each thread four elements at a time.
Status launch_elementwise_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);

Status launch_cast_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
