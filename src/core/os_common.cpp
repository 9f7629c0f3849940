// What Linux and the other POSIX systems do alike.
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/os.h"

namespace onepass::os {
namespace {

constexpr std::uint64_t min_alignment = 256;
constexpr std::uint64_t min_mapped_bytes = 64 * 1024;

// Sanitizer builds take everything from the instrumented heap, which has red zones.
bool is_mapped(std::uint64_t bytes) { return !sanitized && bytes >= min_mapped_bytes; }

}  // namespace

void yield() noexcept { sched_yield(); }

std::uint64_t now_ns() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(t.tv_nsec);
}

std::size_t page_bytes() noexcept {
  static const std::size_t bytes = [] {
    const long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? static_cast<std::size_t>(n) : std::size_t{16384};
  }();
  return bytes;
}

void* allocate(std::uint64_t bytes, bool zero) noexcept {
  if (bytes > (std::uint64_t{1} << 62)) return nullptr;
  if (is_mapped(bytes)) return map_zeroed(bytes);
  // Exact in sanitizer builds, so that one byte too far is found.
  const std::uint64_t size = bytes == 0 ? 1
                             : sanitized
                                 ? bytes
                                 : (bytes + min_alignment - 1) / min_alignment * min_alignment;
  const std::size_t alignment =
      bytes >= min_mapped_bytes ? page_bytes() : static_cast<std::size_t>(min_alignment);
  void* p = nullptr;
  if (posix_memalign(&p, alignment, size) != 0) return nullptr;
  if (zero) std::memset(p, 0, size);
  return p;
}

void release(void* memory, std::uint64_t bytes) noexcept {
  if (!memory) return;
  if (is_mapped(bytes)) {
    munmap(memory, bytes);
  } else {
    std::free(memory);
  }
}

}  // namespace onepass::os
