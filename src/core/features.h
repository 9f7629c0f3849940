// What kernels may need of a device beyond plain code: bits of DeviceInfo::features and
// KernelRow::needs.
#pragma once

#include <cstdint>
#include <span>

#include "onepass/device.h"

namespace onepass {

enum class Isa : std::uint32_t {
#define ISA(name, ...) name,
#include "ops/shared/isa.def"
#undef ISA
};

constexpr std::uint32_t isa_bit(Isa isa) noexcept {
  return isa == Isa::base ? 0 : 1u << 3 << static_cast<std::uint32_t>(isa);
}

enum class Feature : std::uint32_t {
  f16 = 1u << 0,
  tensor_cores = 1u << 1,
  clusters = 1u << 2,  // groups that share memory
#define ISA(name, condition, feature, ...) feature = isa_bit(Isa::name),
#include "ops/shared/isa.def"
#undef ISA
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
