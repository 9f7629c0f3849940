// A shuffling device whose order can change from submission to submission, with memory that is
// poisoned, guarded and handed out again at the same address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "support/backends/shuffle.h"
#include "support/ordered_recording.h"

namespace onepass::property {

using testing::OrderedRecording;

enum class RunOrder : std::uint8_t {
  forward,
  reverse,         // by edges where there are any, else by levels
  random,          // the same, at random
  reverse_levels,  // by levels, also where there are edges
  random_levels,
  count_,
};
inline constexpr std::size_t n_run_orders = static_cast<std::size_t>(RunOrder::count_);

inline const char* name(RunOrder order) {
  constexpr std::array<const char*, n_run_orders> names{"forward", "reverse", "random",
                                                        "reverse levels", "random levels"};
  return names[static_cast<std::size_t>(order)];
}

class OrderBackend final : public HostBackend {
 public:
  OrderBackend() : HostBackend(host_device_info("shuffle", 1)) {}
  ~OrderBackend() override {
    for (const auto& [bytes, list] : free_) {
      for (const Allocation& a : list) HostBackend::release(a);
    }
  }

  // Of the recordings and submissions that follow. Plans can be run in any order.
  void set_order(RunOrder order) { order_ = order; }
  void reseed(std::uint64_t seed) {
    for (ShuffleBackend& s : shuffles_) s.reseed(seed);
  }
  // Fills everything that was not asked for zeroed: arenas.
  void poison(std::byte value) {
    for (const Allocation& a : dirty_) std::memset(a.host, static_cast<int>(value), a.bytes);
  }
  // Every recording is copied to the list while it is set.
  void capture(std::vector<OrderedRecording>* list) { captured_ = list; }
  // True while no byte behind an allocation was written.
  bool guards_intact() const {
    for (const auto& [host, bytes] : live_) {
      for (std::size_t i = 0; i < guard_bytes; ++i) {
        if (host[bytes + i] != guard_value) return false;
      }
    }
    return true;
  }

  KernelTable kernels() const noexcept override { return cpu_kernel_rows(); }

  Result<Allocation> allocate(std::uint64_t bytes, MemoryKind kind, bool zero) override {
    std::vector<Allocation>& list = free_[bytes];
    Allocation a;
    if (list.empty()) {
      ONEPASS_ASSIGN(a, HostBackend::allocate(bytes + guard_bytes, kind, true));
    } else {
      a = list.back();
      list.pop_back();
    }
    a.bytes = bytes;
    std::memset(a.host, zero ? 0 : 0xa5, bytes);
    std::memset(a.host + bytes, static_cast<int>(guard_value), guard_bytes);
    if (!zero) dirty_.push_back(a);
    live_[a.host] = bytes;
    return a;
  }
  // Kept for the next allocation of this size.
  void release(const Allocation& memory) noexcept override {
    std::erase_if(dirty_, [&](const Allocation& a) { return a.host == memory.host; });
    live_.erase(memory.host);
    std::memset(memory.host, 0x5a, memory.bytes);
    Allocation whole = memory;
    whole.bytes += guard_bytes;
    free_[memory.bytes].push_back(whole);
  }

  Result<std::unique_ptr<Recorded>> record(const Recording& recording,
                                           const Order& order) override {
    if (captured_ != nullptr) captured_->emplace_back(recording, order);
    auto all = std::make_unique<InEveryOrder>();
    for (std::size_t i = 0; i < n_run_orders; ++i) {
      if (!recording.replayed && i != static_cast<std::size_t>(order_)) continue;
      ONEPASS_ASSIGN(all->recorded[i], shuffles_[i].record(recording, order));
    }
    return std::unique_ptr<Recorded>(std::move(all));
  }
  Status submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                Completion& completion) override {
    const auto i = static_cast<std::size_t>(order_);
    const auto& all = static_cast<InEveryOrder&>(recorded);
    if (!all.recorded[i]) return fail(ErrorCode::submission_failed, "recorded in another order");
    return shuffles_[i].submit(*all.recorded[i], step_bytes, completion);
  }
  void wait(Completion&) override {}
  bool poll(Completion& completion) override { return completion.done.load(); }
  Status timestamps(Recorded&, std::span<TimeSpan>) override {
    return fail(ErrorCode::invalid_state, "not timed");
  }

 private:
  static constexpr std::size_t guard_bytes = 64;
  static constexpr std::byte guard_value{0xc3};
  struct InEveryOrder final : Recorded {
    std::array<std::unique_ptr<Recorded>, n_run_orders> recorded;
  };

  std::array<ShuffleBackend, n_run_orders> shuffles_{{
      ShuffleBackend({.order = ShuffleOrder::forward}),
      ShuffleBackend({.order = ShuffleOrder::reverse}),
      ShuffleBackend({.order = ShuffleOrder::random}),
      ShuffleBackend({.order = ShuffleOrder::reverse, .use_levels = true}),
      ShuffleBackend({.order = ShuffleOrder::random, .use_levels = true}),
  }};
  RunOrder order_ = RunOrder::forward;
  std::vector<OrderedRecording>* captured_ = nullptr;
  std::vector<Allocation> dirty_;
  std::map<std::byte*, std::uint64_t> live_;
  std::map<std::uint64_t, std::vector<Allocation>> free_;
};

}  // namespace onepass::property
