// CPU kernels of this family, for the backend's table.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> embed_cpu_kernels() noexcept;

}  // namespace onepass::ops
