// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

Status launch_rope(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// The format is the type of the k cache, without one of the v cache, without both f32.
Status launch_rope_store(const DeviceInfo& device, const Dispatch& d, Launch& launch);

std::span<const KernelRow> rope_cuda_kernels() noexcept;  // where CUDA is compiled in
// rope: a thread per pair, groups in x for rows, in y for pairs, in z for heads where there are few
// rows. rope_store: a warp per head of a row.
Status launch_rope_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_rope_store_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> rope_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
