// CPU kernels of this family, for the backend's table, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> attention_cpu_kernels() noexcept;

// attention and attention_q. On the CPU a tile is a block of rows, one kv head, and a share of the
// keys where there would be too few tiles otherwise (launch_tiling.h).
Status launch_attention(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
