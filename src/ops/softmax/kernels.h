// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

Status launch_softmax(const DeviceInfo& device, const Dispatch& d, Launch& launch);

std::span<const KernelRow> softmax_cuda_kernels() noexcept;  // where CUDA is compiled in
// A group per row.
Status launch_softmax_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> softmax_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
