// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

Status launch_kv_store(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_kv_copy(const DeviceInfo& device, const Dispatch& d, Launch& launch);

std::span<const KernelRow> kv_cache_cuda_kernels() noexcept;  // where CUDA is compiled in
// kv_store: a warp per head of a row. kv_copy: groups in y for heads.
Status launch_kv_store_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_kv_copy_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> kv_cache_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
