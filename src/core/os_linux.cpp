#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "core/os.h"

namespace onepass::os {
namespace {

constexpr std::uint64_t huge_page_bytes = 2 * 1024 * 1024;

std::uint64_t round_up(std::uint64_t n, std::uint64_t step) { return (n + step - 1) / step * step; }

// Address space that allocations are cut from one after the other, so that those of one model share
// huge pages: what lies in small pages is read up to a tenth slower. No address is handed out
// twice, so the bytes are zero at first, and each allocation is unmapped on its own.
class Range {
 public:
  // Null when there is no memory, or no address space for a range.
  void* cut(std::uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    if (end_ - front_ < bytes && !open(bytes)) return nullptr;
    // Whole huge pages are made usable, also where the next allocation is going to lie.
    const std::uintptr_t usable = round_up(front_ + bytes, huge_page_bytes);
    if (usable > usable_) {
      if (mprotect(at(usable_), usable - usable_, PROT_READ | PROT_WRITE) != 0) return nullptr;
      usable_ = usable;
    }
    void* const memory = at(front_);
    front_ += round_up(bytes, page_bytes());
    return memory;
  }

 private:
  static constexpr std::uint64_t range_bytes = 64 << 20;

  static void* at(std::uintptr_t address) noexcept { return reinterpret_cast<void*>(address); }

  // A new range; gives back what is left of the one before.
  bool open(std::uint64_t bytes) noexcept {
    const std::uint64_t size = round_up(std::max(bytes, range_bytes), huge_page_bytes);
    void* const p =
        mmap(nullptr, size + huge_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    if (end_ > front_) munmap(at(front_), end_ - front_);
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    front_ = usable_ = round_up(begin, huge_page_bytes);
    end_ = front_ + size;
    if (front_ > begin) munmap(p, front_ - begin);
    if (begin + huge_page_bytes > front_) munmap(at(end_), begin + huge_page_bytes - front_);
    madvise(at(front_), size, MADV_HUGEPAGE);  // a hint; may be refused
    return true;
  }

  std::mutex mutex_;
  std::uintptr_t front_ = 0;   // of what is not cut off yet
  std::uintptr_t usable_ = 0;  // end of what may be written
  std::uintptr_t end_ = 0;
};

constinit Range the_range;

// First line of a small file; false when it cannot be read.
bool read_line(const char* path, char* line, int size) {
  std::FILE* file = std::fopen(path, "re");
  if (!file) return false;
  const bool ok = std::fgets(line, size, file) != nullptr;
  std::fclose(file);
  return ok;
}

std::uint64_t status_field_kib(const char* path, const char* field) {
  std::FILE* file = std::fopen(path, "re");
  if (!file) return 0;
  char line[256];
  unsigned long long kib = 0;
  const std::size_t n = std::strlen(field);
  while (std::fgets(line, sizeof line, file)) {
    if (std::strncmp(line, field, n) == 0 && std::sscanf(line + n, ": %llu", &kib) == 1) break;
  }
  std::fclose(file);
  return kib;
}

}  // namespace

std::uint32_t core_count() noexcept {
  std::uint32_t cores = 1;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    cores = static_cast<std::uint32_t>(CPU_COUNT(&set));
  } else if (const long n = sysconf(_SC_NPROCESSORS_ONLN); n > 0) {
    cores = static_cast<std::uint32_t>(n);
  }
  char line[64];
  unsigned long long quota = 0, period = 0;
  if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line) &&
      std::sscanf(line, "%llu %llu", &quota, &period) == 2 && period > 0) {
    const std::uint64_t limit = std::min<std::uint64_t>((quota + period - 1) / period, cores);
    cores = static_cast<std::uint32_t>(limit);
  }
  return std::max(cores, 1u);
}

bool pin_thread(std::uint32_t core) noexcept {
  // The core-th of those the process may use.
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || core-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
  }
  return false;
}

void name_thread(const char* name) noexcept { pthread_setname_np(pthread_self(), name); }

std::uint64_t total_memory_bytes() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES);
  std::uint64_t bytes = pages > 0 ? static_cast<std::uint64_t>(pages) * page_bytes() : 0;
  char line[64];
  unsigned long long limit = 0;
  if (read_line("/sys/fs/cgroup/memory.max", line, sizeof line) &&
      std::sscanf(line, "%llu", &limit) == 1) {
    bytes = bytes == 0 ? limit : std::min<std::uint64_t>(bytes, limit);
  }
  return bytes;
}

std::uint64_t resident_memory_bytes() noexcept {
  return status_field_kib("/proc/self/status", "VmRSS") * 1024;
}

std::uint64_t peak_memory_bytes() noexcept {
  return status_field_kib("/proc/self/status", "VmHWM") * 1024;
}

std::string executable_path() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 && static_cast<std::size_t>(n) < sizeof path
             ? std::string(path, static_cast<std::size_t>(n))
             : std::string();
}

std::string cpu_name() {
  std::string name = "unknown CPU";
  std::FILE* file = std::fopen("/proc/cpuinfo", "re");
  if (!file) return name;
  char line[256];
  while (std::fgets(line, sizeof line, file)) {
    const char* colon = std::strchr(line, ':');
    if (std::strncmp(line, "model name", 10) != 0 || !colon || colon[1] == '\0') continue;
    name = colon + 2;
    while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
    break;
  }
  std::fclose(file);
  return name;
}

bool has_arm_dotprod() noexcept {
#if defined(__aarch64__)
  constexpr unsigned long asimd_dp = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & asimd_dp) != 0;
#else
  return false;
#endif
}

void* map_zeroed(std::uint64_t bytes) noexcept {
  if (void* const p = the_range.cut(bytes)) return p;
  // There may still be room for this one alone.
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

}  // namespace onepass::os
