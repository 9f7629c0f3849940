// What kernels may need of a device beyond plain code: bits of DeviceInfo::features and
// KernelRow::needs.
#pragma once

#include <cstdint>
#include <span>

#include "onepass/device.h"

namespace onepass {

// The names that feature_names() gives are in features.cpp, in this order.
enum class Feature : std::uint32_t {
  avx2 = 1u << 0,
  avx512_vnni = 1u << 1,
  neon_dotprod = 1u << 2,
  f16 = 1u << 3,
  tensor_cores = 1u << 4,
  clusters = 1u << 5,  // groups that share memory
};

template <class... Features>
constexpr std::uint32_t feature_bits(Features... features) noexcept {
  return (0u | ... | static_cast<std::uint32_t>(features));
}
inline bool has(const DeviceInfo& info, Feature f) noexcept {
  return (info.features & feature_bits(f)) != 0;
}

// CPU kernels of one instruction set.
struct CpuPath {
  const char* name;
  const char* description;
  std::uint32_t features;
  bool is_compiled;  // for this kind of processor
};
// From the plainest to the best, for every kind of processor.
std::span<const CpuPath> cpu_paths() noexcept;
// The best whose features are all among these.
const CpuPath& best_cpu_path(std::uint32_t features) noexcept;

}  // namespace onepass
