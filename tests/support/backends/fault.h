// Wraps a backend and makes chosen calls fail, submissions complete late, or the device vanish.
//
//   FaultBackend fault(make_cpu_backend({}));
//   fault.arm({.call = BackendCall::submit, .nth = 3});   // the third submit from now on, once
//   fault.set_hold(true);                                 // submissions wait for release_held()
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backends/null/null.h"
#include "core/backend.h"
#include "support/backends/forwarding.h"

namespace onepass {

const char* name(BackendCall kind) noexcept;  // "submit"

// Which call fails. A failing `wait` marks the completion as failed; a submission that was still
// held then never runs. Calls that return no error (release, poll) cannot fail.
struct Fault {
  BackendCall call = BackendCall::submit;
  std::uint64_t nth = 1;    // 1: the next call of this kind
  bool persistent = false;  // and every one after it
  // By default out_of_memory for allocate, kernel_build for record, else submission_failed.
  std::optional<ErrorCode> code = std::nullopt;
};

struct FaultOptions {
  std::vector<Fault> faults = {};
  bool hold = false;           // keep submissions back until release_held()
  bool wait_releases = true;   // wait() on a held submission releases it and those before it
  std::uint32_t max_open = 0;  // submissions not yet seen as done by wait or poll; 0: any number
};

class FaultBackend : public test::ForwardingBackend {
 public:
  explicit FaultBackend(std::unique_ptr<Backend> inner, FaultOptions options = {});

  Backend& inner() noexcept { return *inner_; }
  std::uint64_t calls(BackendCall kind) const noexcept;
  void arm(const Fault& fault);
  void disarm();  // all faults; a lost device stays lost
  // From now on every call that can fail returns device_lost, and what was submitted and not done
  // fails when it is waited for.
  void lose_device();
  void set_hold(bool hold);
  void release_held();  // forwards what is held, in order
  std::size_t held() const;
  std::size_t open() const;  // counted with max_open only

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
  struct Held {
    Recorded* recorded;
    Completion* completion;
    std::vector<std::byte> step_bytes;
  };

  // Counts the call; an error when it has to fail.
  std::optional<Error> check(BackendCall kind);
  std::optional<Error> check_locked(BackendCall kind);
  bool is_held_locked(const Completion& completion) const;
  void forward_first_locked();
  void release_all_locked();
  void close_locked(const Completion& completion);
  static void mark_failed(Completion& completion, const Error& error);

  std::array<std::atomic<std::uint64_t>, n_backend_calls> calls_{};
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable released_;
  std::vector<Fault> faults_;  // nth counts down
  std::deque<Held> held_;
  std::vector<const Completion*> open_;
  bool hold_;
  bool wait_releases_;
  std::uint32_t max_open_;
  bool lost_ = false;
};

}  // namespace onepass
