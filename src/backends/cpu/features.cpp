#include "core/features.h"

#include "backends/cpu/cpu.h"
#include "core/os.h"
#include "ops/shared/simd16.h"

#if ONEPASS_HAS_X86
#include <cpuid.h>
#define X86(word) (__builtin_cpu_supports(#word) != 0)
#else
#define X86(word) false
#endif

namespace onepass {
namespace {

bool has_f16c() noexcept {
#if ONEPASS_HAS_X86
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
#else
  return false;
#endif
}

std::uint32_t detect() noexcept {
#if ONEPASS_HAS_X86
  __builtin_cpu_init();
#endif
  std::uint32_t bits = ONEPASS_HAS_NEON || has_f16c() ? feature_bits(Feature::f16) : 0;
#define ISA(isa, condition, feature, there, text) \
  if ((condition) && (there)) bits |= feature_bits(Feature::feature);
#include "ops/shared/isa.def"
#undef ISA
  // A set counts with all that it includes.
  return best_cpu_path(bits).features | (ONEPASS_HAS_NEON ? feature_bits(Feature::f16) : 0);
}

}  // namespace

std::uint32_t cpu_features() noexcept {
  static const std::uint32_t bits = detect();
  return bits;
}

DeviceInfo host_device_info(const char* name, std::uint32_t threads) {
  DeviceInfo info;
  info.name = name;
  info.description = os::cpu_name();
  info.memory_bytes = os::total_memory_bytes();
  if (info.memory_bytes != 0) info.max_buffer_bytes = info.memory_bytes;
  info.compute_units = threads;
  info.features = cpu_features();
  info.unified_memory = true;
  info.order = OrderKind::edges;
  return info;
}

}  // namespace onepass
