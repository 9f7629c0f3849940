#include "onepass/encoder.h"

#include <chrono>

#include "core/guarded.h"
#include "graph/ancestor/encoder_state.h"
#include "graph/compile.h"
#include "graph/order.h"
#include "graph/validate.h"
#include "onepass/graph.h"

namespace onepass {

EncoderState::~EncoderState() {
  if (open) device->close_command_buffer();
}

void EncoderState::end(Error e) noexcept {
  if (std::exchange(open, false)) device->close_command_buffer();
  direct.reset();
  capture.reset();
  scratch.reset();
  tracker.reset();
  pending_kind.reset();
  pending_reads.clear();
  pending_writes.clear();
  error = std::move(e);
}

Status EncoderState::status() const {
  if (misused.load(std::memory_order_relaxed)) return two_threads_error();
  if (error) return *error;
  return {};
}

// A command buffer is taken with the first command, not with the encoder.
Status EncoderState::open_list() {
  if (!direct) direct = std::make_unique<NodeList>(device);
  if (!open) {
    ONEPASS_TRY(device->open_command_buffer());
    open = true;
  }
  if (scratch) direct->add_table(scratch);
  return {};
}

NodeList& EncoderState::capture_list() {
  if (scratch) capture->add_table(scratch);
  return *capture;
}

template <class F>
void EncoderState::count_barrier(F&& give) {
  const bool timed = device->options().time_barriers;
  const auto begin =
      timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  give();
  tracker.reset();
  ++barriers;
  device->counters.barriers.fetch_add(1, std::memory_order_relaxed);
  if (timed) {
    const auto ns = std::chrono::steady_clock::now() - begin;
    device->counters.barrier_ns.fetch_add(
        static_cast<std::uint64_t>(std::chrono::nanoseconds(ns).count()),
        std::memory_order_relaxed);
  }
}

void EncoderState::issue_barrier(bool is_fence) {
  count_barrier([&] { is_fence ? direct->append_fence() : direct->append_barrier(); });
}

// The last node of the direct list was appended; a barrier that it needs goes in front of it.
Status EncoderState::add_direct(bool check, bool opaque, bool& barrier) {
  const std::uint32_t i = direct->size() - 1;
  const auto ranges = direct->ranges(i);
  barrier =
      check && !tracker.empty() && (opaque || tracker.is_opaque() || tracker.conflicts(ranges));
  if (barrier) count_barrier([&] { direct->insert_barrier_before_last(); });
  if (opaque) {
    tracker.add_opaque();
  } else {
    tracker.add(direct->ranges(direct->size() - 1));
  }
  return {};
}

void EncoderState::encode(const Dispatch& d) noexcept {
  if (!usable()) return;
  try {
    device->counters.dispatches.fetch_add(1, std::memory_order_relaxed);
    const std::optional<CapturedOpKind> kind = std::exchange(pending_kind, std::nullopt);
    Status ok;
    if (capture) {
      NodeList& list = capture_list();
      list.default_label = label;
      list.default_group = group;
      ok = list.append(d, kind, pending_reads, pending_writes);
    } else {
      ok = open_list();
      if (ok) {
        direct->default_label = label;
        direct->default_group = group;
        ok = direct->append(d, kind, pending_reads, pending_writes);
      }
      if (ok) {
        bool barrier = false;
        ok = add_direct(automatic(), false, barrier);
        if (automatic()) {
          auto& count =
              barrier ? device->counters.automatic_barriers : device->counters.elided_barriers;
          count.fetch_add(1, std::memory_order_relaxed);
        }
      }
    }
    pending_reads.clear();
    pending_writes.clear();
    if (!ok) fail(std::move(ok).error());
  } catch (const std::bad_alloc&) {
    fail(host_out_of_memory(d.file, d.line));
  }
}

void EncoderState::memory_barrier() noexcept {
  if (!usable()) return;
  try {
    if (capture) {
      capture->append_barrier();
    } else if (direct && direct->dispatch_count() > 0) {
      issue_barrier(false);
    }
  } catch (const std::bad_alloc&) {
    fail(host_out_of_memory());
  }
}

void EncoderState::fence() noexcept {
  if (!usable()) return;
  try {
    if (capture) {
      capture->append_fence();
    } else if (direct && direct->dispatch_count() > 0) {
      issue_barrier(true);
    }
  } catch (const std::bad_alloc&) {
    fail(host_out_of_memory());
  }
}

void EncoderState::start_capture() noexcept {
  try {
    capture = std::make_unique<NodeList>(device);
  } catch (const std::bad_alloc&) {
    fail(host_out_of_memory());
  }
}

std::optional<ComputeGraph> EncoderState::take_capture() {
  if (!capture) return std::nullopt;
  return ComputeGraph(std::move(capture));
}

void EncoderState::set_pending(std::span<const MemRange> reads,
                               std::span<const MemRange> writes) noexcept {
  try {
    pending_reads.assign(reads.begin(), reads.end());
    pending_writes.assign(writes.begin(), writes.end());
  } catch (const std::bad_alloc&) {
    fail(host_out_of_memory());
  }
}

void EncoderState::annotate_last(std::span<const MemRange> reads,
                                 std::span<const MemRange> writes) noexcept {
  if (!capture || !usable()) return;
  try {
    if (Status ok = capture->annotate_last(reads, writes); !ok) fail(std::move(ok).error());
  } catch (const std::bad_alloc&) {
    fail(host_out_of_memory());
  }
}

Result<bool> EncoderState::replay(const NodeList& list, std::uint32_t node, bool check) {
  ONEPASS_TRY(status());
  ONEPASS_TRY(open_list());
  direct->default_label = direct->default_group = nullptr;
  ONEPASS_TRY(direct->append_copy(list, node));
  bool barrier = false;
  ONEPASS_TRY(add_direct(check, list.node(node).opaque, barrier));
  pending_kind.reset();
  device->counters.replayed_dispatches.fetch_add(1, std::memory_order_relaxed);
  return barrier;
}

Status EncoderState::replay_dispatch(const Dispatch& d) {
  ONEPASS_TRY(open_list());
  const std::optional<CapturedOpKind> kind = std::exchange(pending_kind, std::nullopt);
  ONEPASS_TRY(direct->append(d, kind, {}, {}));
  bool barrier = false;
  ONEPASS_TRY(add_direct(automatic(), false, barrier));
  device->counters.replayed_dispatches.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<View> EncoderState::whole(const View& view) const {
  const BufferId id = view.buffer;
  if ((id.index & scratch_bit) == 0) {
    if (!device->retain(id)) return onepass::fail(ErrorCode::stale, "the view names no buffer");
    const View all{id, 0, device->facts(id).bytes};
    device->release(id);
    return all;
  }
  const std::uint32_t item = id.index & ~scratch_bit;
  if (!scratch || scratch->tag != id.generation || item >= scratch->items.size()) {
    return onepass::fail(ErrorCode::stale, "scratch of another session");
  }
  return View{id, 0, scratch->items[item].bytes};
}

Result<bool> EncoderState::replay_barrier() {
  ONEPASS_TRY(status());
  if (!direct || direct->dispatch_count() == 0) return false;
  issue_barrier(false);
  return true;
}

Result<Submission> EncoderState::commit(std::string_view submission_label) {
  ONEPASS_TRY(status());
  if (capture) {
    return onepass::fail(ErrorCode::invalid_state,
                         "commit: the encoder is capturing; take_capture first");
  }
  ONEPASS_TRY(open_list());
  ONEPASS_ASSIGN(const graph::Compilation c,
                 graph::Compilation::of(*direct, {.fuse = false,
                                                  .policy = Policy::recorded,
                                                  .recompute = false,
                                                  .check = false,
                                                  .alias = false,
                                                  .validate = automatic()}));
  ONEPASS_ASSIGN(graph::Part part, c.part(0, c.size()));
  ONEPASS_ASSIGN(last, graph::submit_once(part, c.list(), submission_label));
  // Those between launches of one dispatch, which nobody could record.
  if (part.barriers() > barriers) {
    device->counters.barriers.fetch_add(part.barriers() - barriers, std::memory_order_relaxed);
  }
  barriers = 0;
  direct->clear();
  tracker.reset();
  open = false;
  committed_barriers = part.barriers();
  committed_groups = part.group_sizes;
  return last;
}

Status EncoderState::validate() const {
  const NodeList* list = capture ? capture.get() : direct.get();
  if (list == nullptr) return {};
  static const KernelRow any{};
  Recording r;
  r.range_offsets.push_back(0);
  std::uint32_t level = 0;
  const auto close_level = [&] {
    if (r.launches.empty() || r.launches.back().level != level) return;
    ++level;
  };
  for (std::uint32_t i = 0; i < list->size(); ++i) {
    const StoredNode& n = list->node(i);
    if (!list->is_dispatch(i) || n.opaque) close_level();
    if (!list->is_dispatch(i)) continue;
    RecordedLaunch& l = r.launches.emplace_back();
    l.kernel = &any;
    l.index = i;
    l.level = level;
    l.label = n.label ? n.label : dispatch_name(*device, n.op, n.kernel);
    for (const graph::Range& range : list->ranges(i)) {
      r.ranges.push_back(PhysicalRange{range.region, range.lo, range.hi, range.write});
    }
    r.range_offsets.push_back(static_cast<std::uint32_t>(r.ranges.size()));
    if (n.opaque) close_level();
  }
  return graph::validate(r, graph::order_by_levels(r));
}

CommandEncoder::CommandEncoder(const Device& device) {
  try {
    state_ = std::make_unique<EncoderState>(device.state().shared_from_this());
  } catch (const std::bad_alloc&) {
    // Every call says so.
  }
}
CommandEncoder::CommandEncoder() noexcept = default;
CommandEncoder::CommandEncoder(CommandEncoder&&) noexcept = default;
CommandEncoder& CommandEncoder::operator=(CommandEncoder&&) noexcept = default;
CommandEncoder::~CommandEncoder() = default;

Status CommandEncoder::status() const {
  return guarded([&]() -> Status {
    const Entered in(state_.get());
    return in ? state_->status() : Status(in.error());
  });
}

void CommandEncoder::fail(Error error) {
  if (const Entered in(state_.get()); in) state_->fail(std::move(error));
}

void CommandEncoder::encode(const Dispatch& dispatch) {
  if (const Entered in(state_.get()); in) state_->encode(dispatch);
}

void CommandEncoder::replay_dispatch(const Dispatch& dispatch) {
  const Entered in(state_.get());
  if (!in || !state_->usable()) return;
  const Status ok = guarded([&] { return state_->replay_dispatch(dispatch); });
  if (!ok) state_->fail(ok.error());
}

Result<View> CommandEncoder::whole(const View& view) const {
  const Entered in(state_.get());
  if (!in) return in.error();
  return guarded([&] { return state_->whole(view); });
}

void CommandEncoder::memory_barrier() {
  if (const Entered in(state_.get()); in) state_->memory_barrier();
}

void CommandEncoder::fence() {
  if (const Entered in(state_.get()); in) state_->fence();
}

std::size_t CommandEncoder::mem_ranges_len() const { return state_ ? state_->tracker.size() : 0; }

void CommandEncoder::start_capture() {
  if (const Entered in(state_.get()); in) state_->start_capture();
}

bool CommandEncoder::is_capturing() const { return state_ && state_->capture; }

std::optional<ComputeGraph> CommandEncoder::take_capture() {
  const Entered in(state_.get());
  return in ? state_->take_capture() : std::nullopt;
}

void CommandEncoder::set_op_kind(CapturedOpKind kind) {
  if (const Entered in(state_.get()); in) state_->pending_kind = kind;
}

void CommandEncoder::set_pending_buffer_ranges(std::span<const MemRange> reads,
                                               std::span<const MemRange> writes) {
  if (const Entered in(state_.get()); in) state_->set_pending(reads, writes);
}

void CommandEncoder::annotate_last_dispatch_if_missing(std::span<const MemRange> reads,
                                                       std::span<const MemRange> writes) {
  if (const Entered in(state_.get()); in) state_->annotate_last(reads, writes);
}

Result<Submission> CommandEncoder::commit(std::string_view label) {
  return guarded([&]() -> Result<Submission> {
    const Entered in(state_.get());
    if (!in) return in.error();
    return state_->commit(label);
  });
}

Status CommandEncoder::commit_and_wait(std::string_view label) {
  ONEPASS_ASSIGN(const Submission submission, commit(label));
  return submission.wait();
}

Status CommandEncoder::wait_until_completed() {
  return guarded([&]() -> Status {
    const Entered in(state_.get());
    if (!in) return in.error();
    if (!state_->last) {
      return onepass::fail(ErrorCode::invalid_state, "wait_until_completed: nothing was committed");
    }
    return state_->last.wait();
  });
}

Status CommandEncoder::validate() const {
  return guarded([&]() -> Status {
    const Entered in(state_.get());
    if (!in) return in.error();
    return state_->validate();
  });
}

}  // namespace onepass
