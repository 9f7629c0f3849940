// Checks of callers' kernels that need no device.
#pragma once

#include <string>

#include "onepass/kernel.h"

namespace onepass {

Status check(const KernelDesc& desc);

// The entry point's name: `entry`, or the kernel's name where that is empty.
const std::string& entry_of(const KernelDesc& desc, const std::string& entry) noexcept;

}  // namespace onepass
