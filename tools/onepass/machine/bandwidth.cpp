#include "bandwidth.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "core/os.h"
#include "model/architecture.h"

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

constexpr std::uint64_t weights_ns = 20'000'000;  // how long weights are read
constexpr std::size_t part_bytes = 64 * 1024;

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

double read_bandwidth(const llm::Model& model) {
  const Device& device = model.device();
  if (device.info().name != "cpu") return 0.0;
  std::vector<std::span<const std::byte>> parts;
  const auto add = [&](const Tensor& t) {
    if (!t) return;
    const auto mapped = device.map(t.view);
    if (!mapped) return;
    for (std::span<const std::byte> rest = *mapped; !rest.empty();) {
      parts.push_back(rest.first(std::min(part_bytes, rest.size())));
      rest = rest.subspan(parts.back().size());
    }
  };
  for (const llm::LoadedPart& p : model.parts()) {
    const bool vector = p.row->form == llm::TensorForm::vector;
    if (p.row->where != llm::Where::model && !vector) add(p.weights.weight);
  }
  if (parts.empty()) return 0.0;

  // Blocks are handed out one after the other, as tiles are in a pass.
  std::atomic<std::uint64_t> next{0}, total{0}, checksum{0};
  const std::uint64_t start = os::now_ns();
  const auto work = [&] {
    std::uint64_t bytes = 0, check = 0;
    while (os::now_ns() - start < weights_ns) {
      const std::uint64_t i = next.fetch_add(1, std::memory_order_relaxed);
      const std::span<const std::byte> part = parts[static_cast<std::size_t>(i % parts.size())];
      check += sum(part.data(), part.size());
      bytes += part.size();
    }
    total += bytes;
    checksum += check;
  };
  std::vector<std::thread> threads;
  try {
    for (std::uint32_t i = 1; i < device.info().compute_units; ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // As many as there are.
  }
  work();
  for (std::thread& t : threads) t.join();
  const std::uint64_t elapsed = os::now_ns() - start;
  // The sum is used, so that nothing of it is left out.
  const double tiny = checksum.load() == 1 ? 1e-9 : 0.0;
  return static_cast<double>(total.load()) / static_cast<double>(elapsed) * 1e9 + tiny;
}

}  // namespace onepass::tool
