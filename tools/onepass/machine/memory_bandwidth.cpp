#include "memory_bandwidth.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "core/os.h"

namespace onepass::tool {
namespace {

// Sixteen bytes at a time at any optimization level.
using Vector = std::uint64_t __attribute__((vector_size(16), may_alias));

// Of bytes that start at a page. Four places at once: a core that reads one after the other does
// not keep the memory busy. Without checks in any build: they would be what is measured.
__attribute__((no_sanitize("address", "undefined"))) std::uint64_t sum(const std::byte* bytes,
                                                                       std::uint64_t n) {
  constexpr std::uint64_t line = 64;
  const std::uint64_t quarter = n / 4 / line * line / sizeof(Vector);
  const auto* in = reinterpret_cast<const Vector*>(bytes);
  Vector a{}, b{}, c{}, d{};
  for (std::uint64_t i = 0; i < quarter; ++i) {
    a += in[i];
    b += in[quarter + i];
    c += in[2 * quarter + i];
    d += in[3 * quarter + i];
  }
  const Vector all = a + b + c + d;
  return all[0] + all[1];
}

}  // namespace

double memory_bandwidth(std::uint32_t threads, std::uint64_t bytes, std::uint32_t passes) {
  threads = std::max(threads, 1u);
  passes = std::max(passes, 1u);
  auto* memory = static_cast<std::byte*>(os::allocate(bytes, false));
  if (memory == nullptr) return 0.0;
  std::uint64_t share = 0;
  std::vector<double> seconds(passes, 0.0);
  std::atomic<bool> begun{false};
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint64_t> sink{0};
  // All threads start a pass together; it lasts until the last one is through.
  const auto meet = [&](std::uint32_t meeting) {
    arrived.fetch_add(1);
    while (arrived.load() < (meeting + 1) * threads) os::yield();
  };
  const auto work = [&](std::uint32_t thread) {
    while (!begun.load()) os::yield();
    std::byte* part = memory + thread * share;
    std::memset(part, static_cast<int>(thread) + 1, share);
    std::uint32_t meeting = 0;
    for (std::uint32_t i = 0; i < passes; ++i) {
      meet(meeting++);
      const std::uint64_t begin = os::now_ns();
      sink += sum(part, share);
      meet(meeting++);
      if (thread == 0) {
        seconds[i] = static_cast<double>(os::now_ns() - begin) * 1e-9;
      }
    }
  };
  std::vector<std::thread> others;
  try {
    for (std::uint32_t i = 1; i < threads; ++i) others.emplace_back(work, i);
  } catch (const std::system_error&) {
    threads = static_cast<std::uint32_t>(others.size()) + 1;  // as many as there are
  }
  share = bytes / threads / 4096 * 4096;
  begun = true;
  work(0);
  for (std::thread& t : others) t.join();
  os::release(memory, bytes);
  const double best = *std::min_element(seconds.begin(), seconds.end());
  return best > 0.0 ? static_cast<double>(share * threads) / best : 0.0;
}

}  // namespace onepass::tool
