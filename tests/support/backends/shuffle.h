// Runs CPU kernels on the calling thread, in an order that is legal but unlikely: what depends on
// an edge that was not handed over gives other bytes.
//
//   ShuffleBackend shuffle({.order = ShuffleOrder::random, .seed = 42});
//   auto recorded = shuffle.record(recording);     // submit() runs it before it returns
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/cpu/cpu.h"
#include "core/backend.h"

namespace onepass {

enum class ShuffleOrder : std::uint8_t {
  forward,  // as recorded
  reverse,  // of the launches that may run, always the one recorded last
  random,   // of the launches that may run, any; another order for every submission
};

struct ShuffleOptions {
  ShuffleOrder order = ShuffleOrder::random;
  std::uint64_t seed = 0;
  std::uint64_t max_binding_bytes = ~std::uint64_t{0};
  bool use_levels = false;  // keep only the order of the levels, also where edges are known
};

// Tiles of a launch follow the same order mode. Launches of a serial recording stay in order.
class ShuffleBackend final : public HostBackend {
 public:
  explicit ShuffleBackend(const ShuffleOptions& options = {});

  // The same seed gives the same orders from here on.
  void reseed(std::uint64_t seed);
  // Launches in the order of the last submission. Valid until the next one.
  static std::span<const std::uint32_t> last_order(const Recorded& recorded);

  KernelTable kernels() const noexcept override { return cpu_kernel_rows(); }
  Result<std::unique_ptr<Recorded>> record(const Recording& recording, const Order& order) override;
  Status submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                Completion& completion) override;
  void wait(Completion&) override {}
  bool poll(Completion& completion) override {
    return completion.done.load(std::memory_order_acquire);
  }
  Status timestamps(Recorded& recorded, std::span<TimeSpan> out) override;

 private:
  const ShuffleOptions options_;
  std::mutex mutex_;  // guards the rest, and runs one submission at a time
  std::uint64_t random_state_;
  std::uint64_t serial_ = 0;
};

}  // namespace onepass
