// Replays one plan very often and looks for growth: memory, heap allocations, file descriptors.
//
//   robust_soak [replays = 1000000]
//
// Prints one line of figures; exits with 1 when one of them is out of bounds.
#include <dirent.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/os.h"
#include "onepass/backends/cpu.h"
#include "robust/programs.h"
#include "support/heap.h"

namespace onepass::test {
namespace {

int open_descriptors() {
  DIR* dir = opendir("/proc/self/fd");
  if (dir == nullptr) return -1;
  int n = 0;
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n;
}

// Slope of the least-squares line, in y per x.
double slope(const std::vector<double>& x, const std::vector<double>& y) {
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0;
  const auto n = static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) mean_x += x[i] / n, mean_y += y[i] / n;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
  }
  return xx == 0 ? 0 : xy / xx;
}

constexpr std::uint64_t samples = 200;
constexpr std::uint64_t sessions_every = 100;  // replays between two direct sessions

// Bounds of the resident memory: a rate and, since the kernel counts pages in batches and a short
// run has few of them, an amount below which a slope means nothing. A million replays reach both
// at the same rate.
constexpr double rate_bound = 1024;           // bytes per 1000 replays
constexpr double amount_bound = 1000 * 1024;  // bytes over the whole run

struct Figures {
  double bytes_per_1000 = 0;
  std::uint64_t replay_allocations = 0;
  std::uint64_t sessions = 0;
  std::int64_t heap_growth = 0;
  int descriptor_growth = 0;
  bool same_bits = true;
};

Status soak(std::uint64_t replays, Figures& figures) {
  ONEPASS_ASSIGN(const Device device, Device::open("cpu", {.backend = {CpuOptions{.threads = 2}},
                                                           .command_buffers = 8}));
  const GraphExecutor executor(device);
  ONEPASS_ASSIGN(const test::Block block, test::Block::create(device, tiny_block(), 11));
  GraphSession recording = executor.begin_recorded();
  block.forward(recording);
  ONEPASS_ASSIGN(const Plan plan, recording.compile({.step = &block.step()}));
  ONEPASS_ASSIGN(const Buffer side, device.allocate(4096));

  const std::uint32_t run_length = block.shape().context;  // then the sequence starts again
  Logits first(block.shape().vocab), now(first);
  std::vector<double> x, y;
  x.reserve(samples + 1);
  y.reserve(samples + 1);
  const std::uint64_t warm_up = std::max(replays / 10, std::min<std::uint64_t>(replays / 2, 10000));
  const std::uint64_t sample_every = std::max<std::uint64_t>(1, (replays - warm_up) / samples);
  int descriptors = 0;
  std::int64_t heap = 0;
  for (std::uint64_t i = 0; i < replays; ++i) {
    const std::uint64_t before = heap_allocations();
    if (i % run_length == 0) {
      ONEPASS_TRY(plan.run(SingleStep(5, 0).values()));
    } else {
      ONEPASS_TRY(plan.run());
    }
    if (i > 2 * run_length) figures.replay_allocations += heap_allocations() - before;
    if (i % run_length == run_length - 1) {
      ONEPASS_TRY(device.read_as<float>(block.logits().view, i < run_length ? first : now));
      if (i > run_length) figures.same_bits = figures.same_bits && first == now;
    }
    if (i % sessions_every == 0) {
      GraphSession s = executor.begin();
      const Tensor t = side.tensor(DType::f32, {64});
      ops::add(s, {.a = t, .b = t, .out = t});
      if (i % (3 * sessions_every) != 0) ONEPASS_TRY(s.finish());
      ++figures.sessions;
    }
    if (i == warm_up) {
      descriptors = open_descriptors();
      heap = heap_live();
    }
    if (i >= warm_up && (i - warm_up) % sample_every == 0 && x.size() < x.capacity()) {
      x.push_back(static_cast<double>(i));
      y.push_back(static_cast<double>(os::resident_memory_bytes()));
    }
  }
  figures.heap_growth = heap_live() - heap;
  figures.descriptor_growth = open_descriptors() - descriptors;
  figures.bytes_per_1000 = 1000 * slope(x, y);
  return {};
}

}  // namespace
}  // namespace onepass::test

int main(int argc, char** argv) {
  using namespace onepass;
  const std::uint64_t replays = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000000;
  if (replays < 1000) {
    std::fputs("usage: robust_soak [replays, at least 1000]\n", stderr);
    return 2;
  }
  test::Figures f;
  const std::uint64_t begin = os::now_ns();
  if (const Status status = test::soak(replays, f); !status) {
    std::printf("%s\n", status.error().to_string().c_str());
    return 1;
  }
  const double seconds = static_cast<double>(os::now_ns() - begin) * 1e-9;
  std::printf(
      "replays %llu, sessions %llu, %.1f s, resident %.1f bytes per 1000 replays, "
      "allocations in replays %llu, heap growth %lld, descriptor growth %d, bits %s\n",
      static_cast<unsigned long long>(replays), static_cast<unsigned long long>(f.sessions),
      seconds, f.bytes_per_1000, static_cast<unsigned long long>(f.replay_allocations),
      static_cast<long long>(f.heap_growth), f.descriptor_growth, f.same_bits ? "equal" : "DIFFER");
  // Sanitizers keep freed memory and histories of their own.
  const double amount = f.bytes_per_1000 * static_cast<double>(replays) / 1000;
  const bool grows =
      !os::sanitized && f.bytes_per_1000 >= test::rate_bound && amount >= test::amount_bound;
  const bool ok = !grows && f.replay_allocations == 0 && f.heap_growth == 0 &&
                  f.descriptor_growth == 0 && f.same_bits;
  return ok ? 0 : 1;
}
