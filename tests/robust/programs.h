// What the robustness tests run: the small decoder as a direct session, a recorded finish and a
// plan, on a device whose memory is counted and whose calls can be made to fail.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu.h"
#include "core/device_state.h"
#include "onepass/onepass.hpp"
#include "onepass/ops.h"
#include "support/backends/fault.h"
#include "support/backends/forwarding.h"
#include "support/block.h"
#include "support/heap.h"

namespace onepass::test {

// What a backend gave out and did not get back. Outlives it.
struct Ledger {
  std::atomic<std::int64_t> allocations{0};
  std::atomic<std::int64_t> bytes{0};
  bool reuses = false;  // hands memory given back out again, at the same address
};

// Forwards everything and keeps the ledger.
class LedgerBackend final : public ForwardingBackend {
 public:
  LedgerBackend(std::unique_ptr<Backend> inner, std::shared_ptr<Ledger> ledger)
      : ForwardingBackend(std::move(inner)), ledger_(std::move(ledger)) {}
  ~LedgerBackend() override {
    if (given_back_.handle != 0) inner_->release(given_back_);
  }

  Result<Allocation> allocate(std::uint64_t bytes, MemoryKind kind, bool zero) override {
    Result<Allocation> memory = given_back_.bytes == bytes && bytes != 0
                                    ? Result<Allocation>(given_back_)
                                    : inner_->allocate(bytes, kind, zero);
    if (memory && memory->handle == given_back_.handle) {
      given_back_ = {};
      if (zero) std::memset(memory->host, 0, bytes);
    }
    if (memory) {
      ledger_->allocations.fetch_add(1);
      ledger_->bytes.fetch_add(static_cast<std::int64_t>(memory->bytes));
    }
    return memory;
  }
  void release(const Allocation& memory) noexcept override {
    ledger_->allocations.fetch_sub(1);
    ledger_->bytes.fetch_sub(static_cast<std::int64_t>(memory.bytes));
    Allocation last = memory;
    if (ledger_->reuses) std::swap(last, given_back_);
    if (last.handle != 0) inner_->release(last);
  }

 private:
  std::shared_ptr<Ledger> ledger_;
  Allocation given_back_;  // with Ledger::reuses, on one thread
};

// A CPU device behind a fault backend.
struct FaultyDevice {
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  FaultBackend* fault = nullptr;  // as long as the device
  Device device{nullptr};

  explicit FaultyDevice(const DeviceOptions& options, FaultOptions faults = {}) {
    auto counted = std::make_unique<LedgerBackend>(make_cpu_backend(options), ledger);
    auto backend = std::make_unique<FaultBackend>(std::move(counted), std::move(faults));
    fault = backend.get();
    device = Device(DeviceState::create(std::move(backend), options).value());
  }
};

inline test::BlockShape tiny_block() {
  return {.dim = 32,
          .layers = 1,
          .heads = 2,
          .kv_heads = 1,
          .head_dim = 16,
          .ffn = 48,
          .vocab = 40,
          .context = 16};
}

enum class ProgramKind { direct, finish_one, finish_two, plan };
inline constexpr std::array all_programs{ProgramKind::direct, ProgramKind::finish_one,
                                         ProgramKind::finish_two, ProgramKind::plan};
inline const char* name(ProgramKind kind) {
  constexpr std::array names{"direct", "finish_one", "finish_two", "plan"};
  return names[static_cast<std::size_t>(kind)];
}

using Logits = std::vector<float>;

// From a restarted block: one pass, or three runs of a plan; logits after each. `logits` has room
// for them, so that what runs here is the library's only.
inline std::size_t logits_of(ProgramKind kind, const test::BlockShape& shape) {
  return std::size_t{shape.vocab} * (kind == ProgramKind::plan ? 3 : 1);
}

inline Status run_program(ProgramKind kind, const Device& device, const test::Block& block,
                          const GraphExecutor& executor, Logits& logits) {
  const std::size_t vocab = block.shape().vocab;
  const auto read = [&](std::size_t i) {
    return device.read_as<float>(block.logits().view, std::span(logits).subspan(i * vocab, vocab));
  };
  if (kind == ProgramKind::direct) {
    GraphSession s = executor.begin();
    block.forward(s);
    ONEPASS_TRY(s.finish({.label = "a label that is longer than a small string"}));
    return read(0);
  }
  GraphSession s = executor.begin_recorded();
  block.forward(s);
  if (kind != ProgramKind::plan) {
    const bool two = kind == ProgramKind::finish_two;
    ONEPASS_TRY(s.finish({.command_buffers = two ? 2u : 1u, .first_min = 4}));
    return read(0);
  }
  ONEPASS_ASSIGN(const Plan plan, s.compile({.step = &block.step(), .label = "robustness plan"}));
  ONEPASS_TRY(plan.run(SingleStep(3, 0).values()));
  ONEPASS_TRY(read(0));
  ONEPASS_TRY(plan.run());
  ONEPASS_ASSIGN(const std::span<std::byte> mapped, device.map(block.logits().view));
  std::memcpy(logits.data() + vocab, mapped.data(), vocab * sizeof(float));
  ONEPASS_ASSIGN(const Submission last, plan.run_async());
  ONEPASS_TRY(last.wait());
  return read(2);
}

// The right bits: from a device of its own, in the simplest mode.
inline Logits expected_logits(ProgramKind kind, const test::BlockShape& shape,
                              std::uint64_t seed = 7) {
  const Device device =
      Device::open("cpu", {.backend = {CpuOptions{.threads = 1}}, .serial = true}).value();
  const test::Block block = test::Block::create(device, shape, seed).value();
  const GraphExecutor executor(device);
  Logits all, one(shape.vocab);
  if (!block.restart(3, 0)) return {};
  for (int i = 0; i < (kind == ProgramKind::plan ? 3 : 1); ++i) {
    GraphSession s = executor.begin();
    block.forward(s);
    if (!s.finish() || !device.read_as<float>(block.logits().view, one)) return {};
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

// Live allocations of the program, once what is made on first use is made.
inline std::int64_t warm_heap() {
  for (const ProgramKind kind : all_programs) expected_logits(kind, tiny_block());
  return heap_live();
}

// Command buffers that can be opened at once: all of them, if none was lost.
inline std::uint32_t open_slots(const Device& device, const test::Block& block,
                                const GraphExecutor& executor) {
  std::vector<GraphSession> open;
  const std::uint32_t limit = device.options().command_buffers;
  for (std::uint32_t i = 0; i < limit; ++i) {
    GraphSession s = executor.begin();
    ops::argmax(s, {.x = block.logits(), .out = s.scratch(DType::u32, {1})});
    if (!s.status()) break;
    open.push_back(std::move(s));
  }
  return static_cast<std::uint32_t>(open.size());
}

// References of all buffers beyond their owner's, of a device whose buffers are all first uses of
// their places.
inline std::uint32_t extra_references(const Device& device) {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < 256; ++i) {
    const std::uint32_t r = device.state().references(BufferId{i, 1});
    n += r > 1 ? r - 1 : 0;
  }
  return n;
}

}  // namespace onepass::test
