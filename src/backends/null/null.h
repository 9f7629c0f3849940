// A device that runs nothing and completes at once: the template for new backends, and a test
// double that tells what it was given.
//
//   NullBackend null;                       // memory works, kernels never run
//   auto recorded = null.record(recording);
//   null.recordings().back().launches;      // what the layers above handed over
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/cpu/cpu.h"
#include "core/backend.h"

namespace onepass {

enum class BackendCall : std::uint8_t {
  allocate,
  release,
  write,
  read,
  map,
  record,
  submit,
  wait,
  poll,
  timestamps,
  count_,
};
inline constexpr std::size_t n_backend_calls = static_cast<std::size_t>(BackendCall::count_);

class NullBackend : public HostBackend {
 public:
  struct Call {
    BackendCall kind;
    std::uint64_t value;  // bytes for memory and submit, launches for record, else 0
    friend bool operator==(const Call&, const Call&) = default;
  };
  // Counts of one recording.
  struct Counts {
    std::uint32_t launches = 0;  // without fences
    std::uint32_t fences = 0;
    std::uint32_t levels = 0;
    std::uint32_t edges = 0;
    std::uint32_t views = 0;
    std::uint64_t tiles = 0;
    std::uint64_t scratch_bytes = 0;
    std::uint64_t step_bytes = 0;
    OrderKind order = OrderKind::levels;
    bool replayed = false, timed = false;
    std::uint32_t submissions = 0;
  };

  // Calls beyond the first log_size are counted, not listed.
  static constexpr std::size_t log_size = 4096;

  // Rows it claims to have; by default the CPU's, so that every op lowers.
  explicit NullBackend(KernelTable kernels = cpu_kernel_rows());

  std::vector<Call> calls() const;
  std::uint64_t count(BackendCall kind) const noexcept;
  std::vector<Counts> recordings() const;  // in the order of record(), destroyed ones included
  void clear_log();                        // calls and counts; recordings stay

  KernelTable kernels() const noexcept override { return kernels_; }
  Result<Allocation> allocate(std::uint64_t bytes, MemoryKind kind, bool zero) override;
  void release(const Allocation& memory) noexcept override;
  Status write(const Allocation& memory, std::uint64_t offset,
               std::span<const std::byte> bytes) override;
  Status read(const Allocation& memory, std::uint64_t offset, std::span<std::byte> bytes) override;
  Result<std::byte*> map(const Allocation& memory) override;
  Result<std::unique_ptr<Recorded>> record(const Recording& recording, const Order& order) override;
  Status submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                Completion& completion) override;
  void wait(Completion& completion) override;
  bool poll(Completion& completion) override;
  Status timestamps(Recorded& recorded, std::span<TimeSpan> out) override;

 private:
  void note(BackendCall kind, std::uint64_t value = 0) noexcept;
  void note_locked(BackendCall kind, std::uint64_t value) noexcept;

  KernelTable kernels_;
  mutable std::mutex mutex_;  // guards the rest
  std::vector<Call> calls_;
  std::array<std::uint64_t, n_backend_calls> counts_{};
  std::vector<Counts> recordings_;
  std::uint64_t serial_ = 0;
};

std::unique_ptr<Backend> make_null_backend(const DeviceOptions& options);

}  // namespace onepass
