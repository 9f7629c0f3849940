// GPUs by their Vulkan drivers, found at run time.
#pragma once

#include <memory>
#include <vector>

#include "core/backend.h"

namespace onepass {

// Devices with a queue for kernels, software last; one that is not available where there is none.
std::vector<DeviceListing> list_vulkan();
Result<std::unique_ptr<Backend>> open_vulkan(std::uint32_t index, const DeviceOptions& options);

namespace vulkan {

// The rows of every op family.
std::span<const KernelList> kernel_lists() noexcept;

}  // namespace vulkan
}  // namespace onepass
