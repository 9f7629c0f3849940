// macOS and other POSIX systems: nothing that only Linux has.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

#include "core/os.h"

namespace onepass::os {
namespace {

#if defined(__APPLE__)
template <class T>
T sysctl_value(const char* name, T fallback) {
  T value{};
  std::size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && size == sizeof value ? value
                                                                                    : fallback;
}
#endif

}  // namespace

std::uint32_t core_count() noexcept {
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? static_cast<std::uint32_t>(n) : 1u;
}

bool pin_thread(std::uint32_t) noexcept { return false; }

void name_thread(const char* name) noexcept {
#if defined(__APPLE__)
  pthread_setname_np(name);
#else
  static_cast<void>(name);
#endif
}

std::uint64_t total_memory_bytes() noexcept {
#if defined(__APPLE__)
  return sysctl_value<std::uint64_t>("hw.memsize", 0);
#elif defined(_SC_PHYS_PAGES)
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<std::uint64_t>(pages) * page_bytes() : 0;
#else
  return 0;
#endif
}

std::uint64_t resident_memory_bytes() noexcept {
#if defined(__APPLE__)
  mach_task_basic_info info;
  mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
  if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, reinterpret_cast<task_info_t>(&info),
                &count) != KERN_SUCCESS)
    return 0;
  return info.resident_size;
#else
  return 0;
#endif
}

std::uint64_t peak_memory_bytes() noexcept {
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0 || usage.ru_maxrss < 0) return 0;
#if defined(__APPLE__)
  constexpr std::uint64_t unit = 1;
#else
  constexpr std::uint64_t unit = 1024;
#endif
  return static_cast<std::uint64_t>(usage.ru_maxrss) * unit;
}

std::string executable_path() {
#if defined(__APPLE__)
  char path[4096];
  std::uint32_t size = sizeof path;
  if (_NSGetExecutablePath(path, &size) == 0) return path;
#endif
  return {};
}

std::string cpu_name() {
#if defined(__APPLE__)
  char name[128] = {};
  std::size_t size = sizeof name - 1;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0 && name[0])
    return name;
#endif
  return "unknown CPU";
}

bool has_arm_dotprod() noexcept {
#if defined(__APPLE__) && defined(__aarch64__)
  return sysctl_value<int>("hw.optional.arm.FEAT_DotProd", 0) != 0;
#elif defined(__ARM_FEATURE_DOTPROD)
  return true;
#else
  return false;
#endif
}

void* map_zeroed(std::uint64_t bytes) noexcept {
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

}  // namespace onepass::os
