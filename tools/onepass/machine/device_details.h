// What there is to say about a device.
#pragma once

#include <cstdint>
#include <string>

#include "onepass/device.h"

namespace onepass::tool {

// The kernels that the CPU backend takes: "avx2 (AVX2, FMA, F16C)".
std::string cpu_path(const DeviceInfo& info);

// Free memory in bytes: the host's, or a card's by its driver. 0: unknown.
std::uint64_t free_bytes(const Device& device);

}  // namespace onepass::tool
