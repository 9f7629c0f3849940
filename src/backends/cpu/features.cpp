#include "core/features.h"

#include "backends/cpu/cpu.h"
#include "core/os.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace onepass {
namespace {

#if defined(__x86_64__)
bool has_f16c() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

std::uint32_t detect() noexcept {
  std::uint32_t bits = 0;
  [[maybe_unused]] const auto add = [&bits](Feature f) { bits |= feature_bits(f); };
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) {
    add(Feature::avx2);
    add(Feature::f16);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"))
      add(Feature::avx512_vnni);
  }
#elif defined(__aarch64__)
  add(Feature::f16);
  if (os::has_arm_dotprod()) add(Feature::neon_dotprod);
#endif
  return bits;
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
