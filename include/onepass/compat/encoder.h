// The ancestor's encode and commit forms over one encode and one commit.
//
//   compat::CommandEncoder encoder(device);
//   const compat::Args args{{0, x.view}, {3, compat::KernelArg::bytes(n)}};
//   encoder.encode_with_args(kernel, args, {64, 1, 1}, {32, 1, 1});
//   ONEPASS_TRY(encoder.commit_and_wait());
#pragma once

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "onepass/compat/args.h"

namespace onepass::compat {

// Owns an encoder, or stands for a session's. Threads and errors as for onepass::CommandEncoder:
// the first error sticks and commit returns it.
class CommandEncoder {
 public:
  explicit CommandEncoder(const Device& device) : own_(std::in_place, device) {}
  explicit CommandEncoder(onepass::CommandEncoder& borrowed) noexcept : borrowed_(&borrowed) {}

  onepass::CommandEncoder& native() noexcept { return borrowed_ ? *borrowed_ : *own_; }
  const onepass::CommandEncoder& native() const noexcept { return borrowed_ ? *borrowed_ : *own_; }
  Status status() const { return native().status(); }

  void start_capture() { native().start_capture(); }
  bool is_capturing() const { return native().is_capturing(); }
  std::optional<ComputeGraph> take_capture() { return native().take_capture(); }
  void set_op_kind(CapturedOpKind kind) { native().set_op_kind(kind); }
  void set_pending_buffer_ranges(const std::vector<MemRange>& reads,
                                 const std::vector<MemRange>& writes) {
    native().set_pending_buffer_ranges(reads, writes);
  }
  void annotate_last_dispatch_if_missing(const std::vector<MemRange>& reads,
                                         const std::vector<MemRange>& writes) {
    native().annotate_last_dispatch_if_missing(reads, writes);
  }
  void memory_barrier() { native().memory_barrier(); }
  void force_barrier_and_reset_tracker() { native().force_barrier_and_reset_tracker(); }
  std::size_t mem_ranges_len() const { return native().mem_ranges_len(); }
  Status validate() const { return native().validate(); }

  // The three together are one encode; pipeline and buffers stay set until replaced.
  void set_pipeline(Pipeline pipeline) { pipeline_ = pipeline; }
  void set_buffer(std::uint32_t slot, const View& view) {
    guard([&] { bound_.insert_or_assign(slot, view); });
  }
  void dispatch_threads(const Size3& grid, const Size3& group) {
    guard([&] { encode(pipeline_, Buffers(bound_.begin(), bound_.end()), grid, group); });
  }

  void encode(Pipeline p, const Buffers& buffers, const Size3& grid, const Size3& group) {
    guard([&] { give(p, to_args(buffers), {}, Grid::threads(grid, group), false); });
  }
  void encode_threadgroups(Pipeline p, const Buffers& buffers, const Size3& groups,
                           const Size3& group) {
    encode_threadgroups_with_shared(p, buffers, {}, groups, group);
  }
  void encode_threadgroups_with_shared(Pipeline p, const Buffers& buffers,
                                       const SharedMemory& shared, const Size3& groups,
                                       const Size3& group) {
    guard([&] { give(p, to_args(buffers), shared, Grid::groups(groups, group), false); });
  }
  void encode_with_args(Pipeline p, const Args& args, const Size3& grid, const Size3& group) {
    guard([&] { give(p, args, {}, Grid::threads(grid, group), false); });
  }
  void encode_threadgroups_with_args(Pipeline p, const Args& args, const Size3& groups,
                                     const Size3& group) {
    encode_threadgroups_with_args_and_shared(p, args, {}, groups, group);
  }
  void encode_threadgroups_with_args_and_shared(Pipeline p, const Args& args,
                                                const SharedMemory& shared, const Size3& groups,
                                                const Size3& group) {
    guard([&] { give(p, args, shared, Grid::groups(groups, group), false); });
  }

  // The views read and written replace pending ranges set by hand.
  void dispatch_tracked_threadgroups_with_args(Pipeline p, const Args& args, const Views& reads,
                                               const Views& writes, const Size3& groups,
                                               const Size3& group) {
    dispatch_tracked_threadgroups_with_args_and_shared(p, args, {}, reads, writes, groups, group);
  }
  void dispatch_tracked_threadgroups_with_args_and_shared(Pipeline p, const Args& args,
                                                          const SharedMemory& shared,
                                                          const Views& reads, const Views& writes,
                                                          const Size3& groups, const Size3& group) {
    guard([&] {
      declare(reads, writes);
      give(p, args, shared, Grid::groups(groups, group), false);
    });
  }
  void dispatch_tracked_threadgroups(Pipeline p, const Buffers& buffers, const Views& reads,
                                     const Views& writes, const Size3& groups, const Size3& group) {
    dispatch_tracked_threadgroups_with_shared(p, buffers, {}, reads, writes, groups, group);
  }
  void dispatch_tracked_threadgroups_with_shared(Pipeline p, const Buffers& buffers,
                                                 const SharedMemory& shared, const Views& reads,
                                                 const Views& writes, const Size3& groups,
                                                 const Size3& group) {
    guard([&] {
      declare(reads, writes);
      give(p, to_args(buffers), shared, Grid::groups(groups, group), false);
    });
  }
  void dispatch_tracked_threads_with_args(Pipeline p, const Args& args, const Views& reads,
                                          const Views& writes, const Size3& grid,
                                          const Size3& group) {
    guard([&] {
      declare(reads, writes);
      give(p, args, {}, Grid::threads(grid, group), false);
    });
  }

  // A recorded dispatch, given to the command buffer at once, also while capturing.
  void replay_dispatch(Pipeline p,
                       const std::vector<std::pair<std::uint32_t, RecordedBinding>>& bindings,
                       const SharedMemory& shared, const Size3& grid, const Size3& group,
                       DispatchKind kind) {
    guard([&] {
      Args args;
      for (const auto& [slot, b] : bindings) {
        args.emplace_back(slot, b.kind == RecordedBinding::Kind::buffer
                                    ? KernelArg::buffer(b.view)
                                    : KernelArg::bytes(std::span<const std::byte>(b.bytes)));
      }
      give(p, args, shared, Grid{kind, grid, group}, true);
    });
  }

  Result<Submission> commit() { return commit_labeled({}); }
  Result<Submission> commit_labeled(std::string_view label) {
    ONEPASS_ASSIGN(last_, native().commit(label));
    return last_;
  }
  Status commit_and_wait() { return commit_and_wait_labeled({}); }
  Status commit_and_wait_labeled(std::string_view label) {
    ONEPASS_ASSIGN(const Submission submission, commit_labeled(label));
    return submission.wait();
  }
  Result<GpuTime> commit_wait_with_gpu_time() {
    ONEPASS_ASSIGN(const Submission submission, commit());
    ONEPASS_ASSIGN(const GpuSpan span, submission.gpu_span());
    return GpuTime{static_cast<double>(span.start_ns) * 1e-9,
                   static_cast<double>(span.end_ns) * 1e-9};
  }
  Status wait_until_completed() { return native().wait_until_completed(); }
  // The driver's handle of the last submission; null on the CPU and before a commit.
  void* metal_command_buffer() const noexcept { return last_.native_handle(); }

 private:
  template <class F>
  void guard(F&& f) noexcept {
    try {
      f();
    } catch (const std::bad_alloc&) {
      Error e;
      e.code = ErrorCode::out_of_memory;
      native().fail(std::move(e));
    }
  }
  static Args to_args(const Buffers& buffers) { return Args(buffers.begin(), buffers.end()); }
  static std::vector<MemRange> ranges(const Views& views) {
    std::vector<MemRange> out;
    out.reserve(views.size());
    for (const View& v : views) out.push_back(MemRange::of(v));
    return out;
  }
  void declare(const Views& reads, const Views& writes) {
    native().set_pending_buffer_ranges(ranges(reads), ranges(writes));
  }
  View resolve(const KernelArg& a) {
    if (a.kind == KernelArg::Kind::buffer) return a.view;
    Result<View> all = native().whole(a.view);
    if (!all) {
      native().fail(std::move(all).error());
      return a.view;
    }
    const std::uint64_t rest = a.offset < all->bytes ? all->bytes - a.offset : 0;
    return View{a.view.buffer, a.offset, a.range_bytes.value_or(rest)};
  }
  void give(Pipeline p, Args args, const SharedMemory& shared, const Grid& grid, bool replayed) {
    std::stable_sort(args.begin(), args.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    Dispatch d = make_dispatch(Op::custom);
    DispatchExtra extra;
    d.kernel = p;
    d.grid = grid;
    d.extra = &extra;
    extra.shared = shared;
    for (const auto& [slot, a] : args) {
      if (a.kind != KernelArg::Kind::bytes) {
        if (d.n_views < max_views) extra.slots[d.n_views] = slot;
        d.bind(resolve(a), Access::read_write);
        continue;
      }
      if (extra.blocks.empty() && a.data.size() <= max_params_bytes) {
        std::copy(a.data.begin(), a.data.end(), d.params.begin());
        d.params_bytes = static_cast<std::uint8_t>(a.data.size());
      }
      extra.blocks.push_back({slot, {a.data.begin(), a.data.end()}});
    }
    replayed ? native().replay_dispatch(d) : native().encode(d);
  }

  std::optional<onepass::CommandEncoder> own_;
  onepass::CommandEncoder* borrowed_ = nullptr;
  Pipeline pipeline_;
  std::map<std::uint32_t, View> bound_;
  Submission last_;
};

}  // namespace onepass::compat
