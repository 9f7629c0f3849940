// One pass: begin, ops, finish or compile.
//
//   onepass::GraphSession s = executor.begin_recorded();
//   const onepass::Tensor h = s.scratch(onepass::DType::f32, {1, 64});
//   onepass::ops::rms_norm(s, {.x = x, .weight = w, .out = h});
//   onepass::ops::add(s, {.a = h, .b = x, .out = y});
//   ONEPASS_ASSIGN(const onepass::FinishReport report, s.finish());
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onepass/encoder.h"
#include "onepass/graph.h"
#include "onepass/plan.h"

namespace onepass {

enum class BarrierSource : std::uint8_t { recorded, recomputed };

struct FinishOptions {
  bool fuse = true;
  bool close_fusions = false;
  bool reorder = true;
  Policy policy = Policy::exact;
  BarrierSource barriers = BarrierSource::recomputed;
  std::uint32_t command_buffers = 1;  // 1 or 2
  std::uint32_t first_min = 64;       // dispatches submitted early with two
  std::uint32_t first_percent = 10;
  bool encode_on_worker = false;  // of two, the second by another thread while the first is given
                                  // to the device and runs
  bool wait = true;
  std::chrono::steady_clock::time_point begin{};  // default: when the session began
  std::string_view label = {};
};

struct FinishReport {
  std::uint64_t encode_ns = 0;  // begin to just before the first submission
  std::uint64_t wait_ns = 0;    // from there to the last completion
  std::uint64_t gpu_ns = 0;
  std::uint64_t fuse_ns = 0, reorder_ns = 0, record_ns = 0;
  std::uint64_t overlap_ns = 0;  // encoding done after the first submission
  FuseReport fused;
  std::uint32_t moved = 0;
  std::uint32_t dispatches = 0;
  std::uint32_t unannotated = 0;
  std::array<std::uint32_t, 2> barriers{};  // per command buffer
  std::uint32_t submissions = 0;
  std::array<std::uint32_t, 8> group_sizes{};  // bin i: groups of i + 1 dispatches; last: 8 or more
  std::uint64_t samples = 0, samples_dropped = 0;  // known after waiting
  Submission submission;                           // the last one; done unless wait was false

  std::uint32_t barrier_count() const noexcept { return barriers[0] + barriers[1]; }
};

// How dispatches fell into groups between barriers.
struct GroupStats {
  std::uint32_t dispatches = 0;  // barrier_between calls
  std::uint32_t barriers = 0;
  std::uint32_t groups = 0;
  double ratio = 0.0;  // dispatches / groups; 0 without groups
  std::array<std::uint32_t, 8> bins{};
  std::string to_string() const;
};

class SessionState;
class ExecutorState;

// Move-only, threads as for CommandEncoder. A session dropped without finish runs nothing.
class GraphSession {
 public:
  GraphSession(GraphSession&&) noexcept;
  GraphSession& operator=(GraphSession&&) noexcept;
  ~GraphSession();

  Device device() const { return device_; }
  bool is_recording() const;
  Status status() const;  // the first error, if any
  CommandEncoder& encoder();

  void encode(const Dispatch& dispatch);
  // Reports an error of an op's own checks at the place of its call.
  void fail(Error error);

  // Memory that only this pass needs: may be aliased, fused away or left unwritten, and has no
  // host access. Contents are undefined until written.
  Tensor scratch(Format format, Shape shape);
  // Promises that nobody reads this range after the pass, so that it need not be written.
  void discard(const View& view);
  // A copy of the label that lives as long as the executor.
  const char* intern(std::string_view label);
  // Labels the following dispatches (empty: none).
  void set_label(std::string_view label);
  // The following dispatches are of this group, up to its end; groups nest. What is open at the end
  // of the session ends with it.
  void begin_group(std::string_view name);
  void end_group();

  // A full fence.
  void barrier();
  // Before a dispatch: declares its accesses; a barrier goes in front if they conflict.
  void barrier_between(std::span<const View> reads, std::span<const View> writes);
  // After a dispatch that needs no check: declares its accesses.
  void track_dispatch(std::span<const View> reads, std::span<const View> writes);
  std::uint32_t barrier_count() const;
  GroupStats group_stats() const;
  std::uint64_t tracker_overhead_ns() const;

  // Both end the session, whatever they return.
  Result<FinishReport> finish(const FinishOptions& options = {});
  Result<Plan> compile(const PlanOptions& options = {});
  // As finish without waiting, recorded order and barriers.
  Result<Submission> commit(std::string_view label = {});

  EncoderState* encoder_state() const noexcept;  // null: out of memory, or the session has ended

 private:
  friend class GraphExecutor;
  static Result<FinishReport> finish_session(SessionState& session, const FinishOptions& options);
  GraphSession(Device device, std::unique_ptr<SessionState> state) noexcept;
  Device device_;
  std::unique_ptr<SessionState> state_;
};

// Begins passes; plans of one executor share scratch memory, because they never overlap.
class GraphExecutor {
 public:
  explicit GraphExecutor(Device device);
  GraphSession begin() const;           // direct: runs at commit in the order given
  GraphSession begin_recorded() const;  // records: passes and plans
  Device device() const { return device_; }

 private:
  Device device_;
  std::shared_ptr<ExecutorState> state_;
};

}  // namespace onepass
