#include "bandwidth.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <thread>
#include <vector>

#include "common/shortest.h"
#include "core/os.h"
#include "machine/machine.h"

namespace onepass::tool {
namespace {

// Sixteen bytes at a time at any optimization level.
using Vector = std::uint64_t __attribute__((vector_size(16), may_alias));

// Of bytes that are 16-byte aligned. Four places at once: a core that reads one after the other
// does not keep the memory busy. Without checks in any build: they would be what is measured.
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

constexpr std::uint64_t most_bytes = std::uint64_t{512} << 20,
                        least_bytes = std::uint64_t{64} << 20;
constexpr std::uint32_t passes = 4;
constexpr std::size_t most_lines = 64;
constexpr std::uint32_t most_measured = 4;  // times; then what is faster than memory is believed

// The best of some passes over more than any cache holds.
double measure_reading(std::uint32_t threads) {
  const std::uint64_t bytes = std::min(most_bytes, available_memory_bytes() / 4) / 4096 * 4096;
  if (bytes < least_bytes) return 0.0;
  threads = std::max(threads, 1u);
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

// One line for each number of threads: the boot, the threads, bytes per second, how often that was
// measured.
struct KeptRate {
  std::string boot;
  std::uint32_t threads = 0;
  double rate = 0.0;
  std::uint32_t measured = 0;
};

std::string cache_path() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string folder = variable("XDG_CACHE_HOME");
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.cache";
  return folder.empty() ? "" : folder + "/onepass/bandwidth";
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

std::vector<KeptRate> kept_lines(const std::string& path) {
  std::vector<KeptRate> lines;
  std::ifstream file(path);
  for (KeptRate line; file >> line.boot >> line.threads >> line.rate >> line.measured;)
    lines.push_back(line);
  return lines;
}

// What cannot be kept is measured by the next command.
void keep_rates(const std::string& path, const std::vector<KeptRate>& lines) {
  std::string text;
  for (std::size_t i = lines.size() - std::min(lines.size(), most_lines); i < lines.size(); ++i) {
    text += lines[i].boot + " " + std::to_string(lines[i].threads) + " " + shortest(lines[i].rate) +
            " " + std::to_string(lines[i].measured) + "\n";
  }
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  static_cast<void>(os::write_file(path, text));
}

// What is known in this process, else what is kept since the machine was started.
KeptRate& known_rate(std::uint32_t threads) {
  static std::map<std::uint32_t, KeptRate> lines;
  const auto [at, is_new] = lines.try_emplace(threads, KeptRate{boot_id(), threads, 0.0, 0});
  KeptRate& line = at->second;
  if (!is_new || line.boot.empty()) return line;
  for (const KeptRate& kept : kept_lines(cache_path())) {
    if (kept.boot == line.boot && kept.threads == threads && kept.rate > 0.0) line = kept;
  }
  return line;
}

void measure_again(KeptRate& line) {
  line.rate = std::max(line.rate, measure_reading(line.threads));
  ++line.measured;
  const std::string path = cache_path();
  if (line.rate == 0.0 || line.boot.empty() || path.empty()) return;
  std::vector<KeptRate> lines = kept_lines(path);
  std::erase_if(
      lines, [&](const KeptRate& l) { return l.boot == line.boot && l.threads == line.threads; });
  lines.push_back(line);
  keep_rates(path, lines);
}

}  // namespace

double memory_bandwidth(std::uint32_t threads, bool again) {
  KeptRate& line = known_rate(threads);
  if (line.rate == 0.0 || again) measure_again(line);
  return line.rate;
}

MemoryShare share_of_memory(double bytes_per_second, std::uint32_t threads) {
  MemoryShare out;
  out.roof = memory_bandwidth(threads);
  KeptRate& line = known_rate(threads);
  while (out.roof > 0.0 && bytes_per_second > out.roof && line.measured < most_measured) {
    measure_again(line);
    out.roof = line.rate;
  }
  if (out.roof == 0.0) return out;
  out.in_cache = bytes_per_second > out.roof;
  if (!out.in_cache) out.share = bytes_per_second / out.roof;
  return out;
}

std::string to_string(const MemoryShare& s) {
  if (s.roof == 0.0) return {};
  char text[80];
  if (s.in_cache) {
    std::snprintf(text, sizeof text, "in cache, memory gives %.1f GB/s", s.roof / 1e9);
  } else {
    std::snprintf(text, sizeof text, "%.0f %% of %.1f GB/s", 100.0 * s.share, s.roof / 1e9);
  }
  return text;
}

}  // namespace onepass::tool
