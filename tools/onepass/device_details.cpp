#include "device_details.h"

#include "core/free_memory.h"
#include "machine.h"

namespace onepass::tool {

std::vector<std::string> feature_names(const DeviceInfo& info) {
  struct Row {
    Feature feature;
    const char* name;
  };
  constexpr Row rows[] = {
      {Feature::avx2, "avx2"},
      {Feature::avx512_vnni, "avx512_vnni"},
      {Feature::neon_dotprod, "neon_dotprod"},
      {Feature::f16, "f16"},
      {Feature::tensor_cores, "tensor_cores"},
      {Feature::clusters, "clusters"},
  };
  std::vector<std::string> names;
  for (const Row& r : rows) {
    if (info.has(r.feature)) names.emplace_back(r.name);
  }
  return names;
}

std::string cpu_path(const DeviceInfo& info) {
  if (info.has(Feature::avx512_vnni)) return "avx512 (AVX-512 with VNNI)";
  if (info.has(Feature::avx2)) return "avx2 (AVX2, FMA, F16C)";
  if (info.has(Feature::neon_dotprod)) return "neon (dot product)";
  return "base (plain C++)";
}

std::uint64_t free_bytes(const Device& device) {
  return device.info().unified_memory ? available_memory_bytes() : free_device_bytes(device);
}

}  // namespace onepass::tool
