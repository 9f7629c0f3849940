// CPU kernels of this family, for the backend's table.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> elementwise_cpu_kernels() noexcept;

}  // namespace onepass::ops
