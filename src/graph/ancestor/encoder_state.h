// The encoder behind CommandEncoder and GraphSession. Its methods expect the caller to hold an
// Entered, which detects two threads inside one object.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "core/guarded.h"
#include "graph/hazards.h"
#include "graph/nodes.h"
#include "onepass/encoder.h"

namespace onepass {

class EncoderState {
 public:
  explicit EncoderState(std::shared_ptr<DeviceState> d) : device(std::move(d)) {}
  ~EncoderState();

  void encode(const Dispatch& d) noexcept;
  void memory_barrier() noexcept;
  void fence() noexcept;
  void start_capture() noexcept;
  std::optional<ComputeGraph> take_capture();
  void set_pending(std::span<const MemRange> reads, std::span<const MemRange> writes) noexcept;
  void annotate_last(std::span<const MemRange> reads, std::span<const MemRange> writes) noexcept;
  // A node of a graph, given to the command buffer as it is. With check, a barrier goes in front
  // where its ranges demand it; returns whether one did.
  Result<bool> replay(const NodeList& list, std::uint32_t node, bool check);
  Status replay_dispatch(const Dispatch& d);
  Result<View> whole(const View& view) const;
  // A barrier node of a graph; returns whether the backend gets it.
  Result<bool> replay_barrier();
  Result<Submission> commit(std::string_view label);
  Status open_list();  // takes a command buffer, unless there is one
  // Gives back what it holds; every later call returns the error.
  void end(Error e) noexcept;
  Status validate() const;

  void fail(Error e) noexcept {
    if (!error) error = std::move(e);
  }
  Status status() const;
  bool usable() const noexcept { return !error && !misused.load(std::memory_order_relaxed); }
  bool automatic() const noexcept { return device->options().barriers == Barriers::automatic; }

  std::shared_ptr<DeviceState> device;
  std::shared_ptr<ScratchTable> scratch;  // the session's, if any
  std::unique_ptr<NodeList> direct;       // the open command buffer
  std::unique_ptr<NodeList> capture;      // not null: capturing
  graph::GroupTracker tracker;            // of the open command buffer
  const char* label = nullptr;            // of dispatches that bring none
  const char* group = nullptr;
  std::optional<CapturedOpKind> pending_kind;
  std::vector<MemRange> pending_reads, pending_writes;
  std::optional<Error> error;
  bool open = false;  // holds a command buffer of the device
  Submission last;
  std::uint32_t barriers = 0;            // given since the last commit
  std::uint32_t committed_barriers = 0;  // of the last commit
  std::array<std::uint32_t, 8> committed_groups{};
  std::atomic<bool> busy{false};
  std::atomic<bool> misused{false};

 private:
  Status add_direct(bool check, bool opaque, bool& barrier);
  void issue_barrier(bool is_fence);
  template <class F>
  void count_barrier(F&& give);
  NodeList& capture_list();
};

inline Error two_threads_error() {
  return make_error(ErrorCode::invalid_state, "two threads were inside one encoder at once");
}

class Entered {
 public:
  explicit Entered(EncoderState& s) noexcept : Entered(&s) {}
  // Null: the encoder could not be made for want of memory.
  explicit Entered(EncoderState* s) noexcept
      : state_(s), ok_(s != nullptr && !s->busy.exchange(true, std::memory_order_acquire)) {
    if (!ok_ && s != nullptr) s->misused.store(true, std::memory_order_relaxed);
  }
  // Why it is false.
  Error error() const { return state_ == nullptr ? host_out_of_memory() : two_threads_error(); }
  ~Entered() {
    if (ok_) state_->busy.store(false, std::memory_order_release);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  explicit operator bool() const noexcept { return ok_; }

 private:
  EncoderState* state_;
  bool ok_;
};

}  // namespace onepass
