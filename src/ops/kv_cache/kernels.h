// CPU kernels of this family, for the backend's table, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> kv_cache_cpu_kernels() noexcept;

Status launch_kv_store(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_kv_copy(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
