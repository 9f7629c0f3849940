// CPU kernels of this family, for the backend's table, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> embed_cpu_kernels() noexcept;

// Of a table that is larger than one binding: launches over ranges of its rows.
Status lower_embed(const DeviceInfo& device, const Dispatch& d, LaunchList& launches);
Status lower_embed_affine(const DeviceInfo& device, const Dispatch& d, LaunchList& launches);
Status launch_embed(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_embed_affine(const DeviceInfo& device, const Dispatch& d, Launch& launch);

std::span<const KernelRow> embed_cuda_kernels() noexcept;  // where CUDA is compiled in
// A group per row, of several where there are few rows.
Status launch_embed_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_embed_affine_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> embed_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
