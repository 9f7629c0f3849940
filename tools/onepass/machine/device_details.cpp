#include "device_details.h"

#include "core/features.h"
#include "core/free_memory.h"
#include "machine.h"

namespace onepass::tool {

std::string cpu_path(const DeviceInfo& info) {
  const CpuPath& path = best_cpu_path(info.features);
  return std::string(path.name) + " (" + path.description + ")";
}

std::uint64_t free_bytes(const Device& device) {
  return device.info().unified_memory ? available_memory_bytes() : free_device_bytes(device);
}

}  // namespace onepass::tool
