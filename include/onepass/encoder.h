// Takes dispatches and barriers, directly or in capture mode, and commits them.
//
//   onepass::CommandEncoder encoder(device);
//   for (const onepass::Dispatch& d : dispatches) encoder.encode(d);  // barriers included
//   ONEPASS_ASSIGN(const onepass::Submission done, encoder.commit("layer 0"));
//   ONEPASS_TRY(done.wait());
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "onepass/device.h"
#include "onepass/dispatch.h"

namespace onepass {

class ComputeGraph;
class SubmissionState;
class EncoderState;

// First launch to last, on the device's clock.
struct GpuSpan {
  std::uint64_t start_ns = 0, end_ns = 0;
};

// One execution on a device. Copies name the same one. Dropping it neither waits nor cancels.
class Submission {
 public:
  Submission() = default;
  Submission(const Submission& other) noexcept;
  Submission(Submission&& other) noexcept;
  Submission& operator=(Submission other) noexcept;
  ~Submission();  // an error nobody waited for goes to Device::take_errors and the log

  explicit operator bool() const noexcept { return state_ != nullptr; }
  // Any number of times, from any thread, with the same result.
  Status wait() const;
  // Waits for this submission, not for later ones, and copies from memory that the host sees:
  // readback or upload memory, any on the CPU. What later submissions write into the view is the
  // caller's to order. `unsupported` for other memory, which Device::read reads.
  Status read(const View& view, std::span<std::byte> bytes) const;
  template <class T>
  Status read_as(const View& view, std::span<T> values) const {
    return read(view, std::as_writable_bytes(values));
  }
  bool is_done() const;
  // Device time from first to last launch, in ns; waits.
  Result<std::uint64_t> gpu_time_ns() const;
  Result<GpuSpan> gpu_span() const;
  std::string label() const;
  // The driver's object that signals its end (CUDA: CUevent). Null on the CPU, and once a later
  // submission may have reused it.
  void* native_handle() const noexcept;

 private:
  friend class DeviceState;
  friend class GraphSession;
  Submission(std::shared_ptr<DeviceState> device, SubmissionState* state) noexcept;
  Status wait_uncounted() const;
  std::shared_ptr<DeviceState> device_;
  SubmissionState* state_ = nullptr;
};

// A byte range that a dispatch reads or writes.
struct MemRange {
  BufferId buffer;
  std::uint64_t start = 0, end = 0;
  static MemRange of(const View& v) noexcept { return {v.buffer, v.offset, v.offset + v.bytes}; }
  friend bool operator==(const MemRange&, const MemRange&) = default;
};

// Move-only. May change thread between calls; two threads inside one at once is an error.
// The first error sticks: later calls do nothing and commit returns it.
class CommandEncoder {
 public:
  explicit CommandEncoder(const Device& device);
  CommandEncoder(CommandEncoder&&) noexcept;
  CommandEncoder& operator=(CommandEncoder&&) noexcept;
  ~CommandEncoder();  // what was not committed does not run

  Status status() const;
  // Makes an error of the caller's stick, unless there is one.
  void fail(Error error);

  // The one encode. Views are checked against their buffers; access comes from the dispatch.
  void encode(const Dispatch& dispatch);
  // An order point for everything before and after; with capture a node that reorder may drop
  // because it recomputes barriers from the ranges.
  void memory_barrier();
  // A full fence in every mode: survives fuse and reorder.
  void fence();
  // A full fence that also forgets the tracked ranges.
  void force_barrier_and_reset_tracker() { fence(); }
  std::size_t mem_ranges_len() const;

  // Gives a dispatch to the command buffer at once, also while capturing, and counts it as
  // replayed. Takes the pending kind, leaves the pending ranges.
  void replay_dispatch(const Dispatch& dispatch);
  // The whole allocation that a view lies in: a buffer, or scratch of this encoder's session.
  Result<View> whole(const View& view) const;

  // Capture.
  void start_capture();
  bool is_capturing() const;
  // The captured list; nullopt when not capturing. Leaves capture mode.
  std::optional<ComputeGraph> take_capture();

  // For the next dispatch only; any encode takes both.
  void set_op_kind(CapturedOpKind kind);
  void set_pending_buffer_ranges(std::span<const MemRange> reads, std::span<const MemRange> writes);
  // Fills the missing reads and the missing writes of the last captured dispatch.
  void annotate_last_dispatch_if_missing(std::span<const MemRange> reads,
                                         std::span<const MemRange> writes);

  // Submits. The encoder is empty afterwards and takes new work; after an error it still has the
  // old, so that the call can be repeated. Committing while capturing is an error: the captured
  // work would be lost.
  Result<Submission> commit(std::string_view label = {});
  Status commit_and_wait(std::string_view label = {});
  // The last committed submission.
  Status wait_until_completed();

  // Checks that every two conflicting dispatches given so far are ordered by a barrier; names the
  // first pair that is not. Of use with manual barriers.
  Status validate() const;

  EncoderState* live_state() const noexcept { return state_.get(); }

 private:
  friend class GraphSession;
  CommandEncoder() noexcept;  // of a session that could not be made
  std::unique_ptr<EncoderState> state_;
};

}  // namespace onepass
