#include "bandwidth.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>

#include "core/os.h"

namespace onepass::tool {
namespace {

constexpr std::uint64_t duration_ns = 20'000'000;
constexpr std::size_t part_bytes = 64 * 1024;

// Sixteen bytes at a time at any optimization level.
using Vector = std::uint64_t __attribute__((vector_size(16)));

std::uint64_t sum(std::span<const std::byte> bytes) {
  Vector a{}, b{}, c{}, d{};
  for (std::size_t i = 0; i + 4 * sizeof(Vector) <= bytes.size(); i += 4 * sizeof(Vector)) {
    const auto load = [&](std::size_t k) {
      Vector v;
      std::memcpy(&v, bytes.data() + i + k * sizeof(Vector), sizeof v);
      return v;
    };
    a += load(0);
    b += load(1);
    c += load(2);
    d += load(3);
  }
  const Vector all = a + b + c + d;
  return all[0] + all[1];
}

}  // namespace

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
  for (const llm::LayerWeights& l : model.weights().layers) {
    for (const llm::Linear* w : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) add(w->weight);
    for (const Tensor* t : {&l.gate_experts, &l.up_experts, &l.down_experts}) add(*t);
  }
  if (parts.empty()) return 0.0;

  // Blocks are handed out one after the other, as tiles are in a pass.
  std::atomic<std::uint64_t> next{0}, total{0}, checksum{0};
  const std::uint64_t start = os::now_ns();
  const auto work = [&] {
    std::uint64_t bytes = 0, check = 0;
    while (os::now_ns() - start < duration_ns) {
      const std::uint64_t i = next.fetch_add(1, std::memory_order_relaxed);
      const std::span<const std::byte> part = parts[static_cast<std::size_t>(i % parts.size())];
      check += sum(part);
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
