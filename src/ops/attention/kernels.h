// CPU kernels of this family, for the backend's table, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> attention_cpu_kernels() noexcept;

// On the CPU a tile is one head of one row.
Status launch_attention(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
