// CPU kernels of this family, for the backend's table, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> sample_cpu_kernels() noexcept;

Status launch_argmax(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_step_advance(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
