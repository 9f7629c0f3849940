// What a Device handle shares: the backend, the buffer table, the kernel registry, the queue of
// submissions, counters and profile.
//
// Lock order: submit_mutex_, then table_mutex_ or log_mutex_. Nothing that holds table_mutex_
// calls the backend's submit or wait.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/serial_ring.h"
#include "onepass/device.h"
#include "onepass/encoder.h"

namespace onepass {

inline constexpr std::uint64_t buffer_alignment = 256;

// What stays true of a buffer while somebody holds a reference to it.
struct BufferFacts {
  Allocation memory;
  std::uint64_t bytes = 0;
  std::uint64_t region = 0;       // equal for buffers that may overlap
  std::uint64_t region_base = 0;  // of byte 0 within the region
  bool immutable = false;
};

struct KernelEntry {
  KernelRow row;  // row.name points to name, of a caller's kernel
  std::string name;
  std::string slots;
  std::uint32_t params_bytes = 0;
  std::vector<SpecValue> spec;
  bool builtin = false;
};

class DeviceState;

// Scratch memory of plans or of one pass. Given back to the device's cache when nobody needs it.
class ArenaBlock {
 public:
  // Reusable memory is kept for the next block; zeroed memory may not be zero any more.
  ArenaBlock(DeviceState& device, const Allocation& memory, std::uint64_t region,
             bool reusable) noexcept
      : device_(&device), memory_(memory), region_(region), reusable_(reusable) {}
  ~ArenaBlock();
  ArenaBlock(const ArenaBlock&) = delete;
  ArenaBlock& operator=(const ArenaBlock&) = delete;
  const Allocation& memory() const noexcept { return memory_; }
  std::uint64_t region() const noexcept { return region_; }

 private:
  DeviceState* device_;
  Allocation memory_;
  std::uint64_t region_;
  bool reusable_;
};

// A recording with everything that must live until its last submission is done. Holds no handle of
// the device, which in turn may hold it in flight.
struct RecordedPass {
  explicit RecordedPass(DeviceState& d) noexcept : device(&d) {}
  ~RecordedPass();
  RecordedPass(const RecordedPass&) = delete;
  RecordedPass& operator=(const RecordedPass&) = delete;

  DeviceState* device;
  Recording recording;
  Order order;
  std::unique_ptr<Recorded> recorded;
  std::vector<BufferId> retained;
  std::vector<BufferId> watched;  // Retain::caller: must still live at completion
  std::vector<std::shared_ptr<ArenaBlock>> arenas;
  std::string label;
  std::uint32_t dispatches = 0;
  std::vector<BufferId> required;   // plans: must live at every submission
  std::uint64_t checked_epoch = 0;  // free epoch at which they all did; under submit_mutex_
  bool checked = false;
  std::uint64_t last_serial = 0;  // of its newest submission; under submit_mutex_
};

class SubmissionState {
 public:
  std::atomic<std::uint32_t> refs{0};
  Completion completion;
  std::uint64_t serial = 0;
  std::shared_ptr<RecordedPass> pass;
  std::string label;
  std::atomic<bool> waited{false};
  bool sampled = false;                    // under submit_mutex_, as the next two
  std::uint64_t samples = 0, dropped = 0;  // final once the submission has been waited for
};

class DeviceState : public std::enable_shared_from_this<DeviceState> {
 public:
  static Result<std::shared_ptr<DeviceState>> create(std::unique_ptr<Backend> backend,
                                                     const DeviceOptions& options);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  Backend& backend() noexcept { return *backend_; }
  const DeviceInfo& info() const noexcept { return backend_->info(); }
  const DeviceOptions& options() const noexcept { return options_; }

  // Buffers.
  Result<Buffer> allocate(std::uint64_t bytes, const AllocateOptions& options);
  Result<Buffer> import_host(std::span<std::byte> memory);
  // False when the id is stale. A reference keeps memory and facts as they are.
  bool retain(BufferId id) noexcept;
  void release(BufferId id) noexcept;
  std::uint32_t references(BufferId id) const noexcept;  // 0 when stale
  bool is_live(BufferId id) const noexcept { return references(id) != 0; }
  BufferFacts facts(BufferId id) const noexcept;  // of a retained id
  Status set_immutable(BufferId id);
  // Ends the id and makes a new one for the same memory. The caller must be the only owner.
  Result<BufferId> renew(BufferId id);
  Buffer adopt(BufferId id, std::uint64_t bytes) noexcept;  // takes over one reference
  std::uint64_t free_epoch() const noexcept { return free_epoch_.load(std::memory_order_acquire); }
  std::uint64_t live_bytes() const noexcept { return live_bytes_.load(std::memory_order_relaxed); }

  Status write(const View& view, std::span<const std::byte> bytes);
  Status read(const View& view, std::span<std::byte> bytes);
  // Of memory that the host sees, when the submission is done; later ones may be running.
  Status read_after(SubmissionState& submission, const View& view, std::span<std::byte> bytes);
  Result<std::span<std::byte>> map(const View& view);

  // Scratch memory; may be larger than asked for.
  Result<std::shared_ptr<ArenaBlock>> arena(std::uint64_t bytes, bool zero);

  // Kernels.
  // The first row for it; null where the device has no kernel for it.
  const KernelRow* find_row(const Dispatch& d) const noexcept;
  // A row for the op in some forms at least; whether it accepts a dispatch depends on that.
  const KernelRow* find_row(Op op, Format format, std::uint32_t form = 0) const noexcept;
  const KernelEntry* find_kernel(KernelId id) const noexcept;
  KernelRegistry& kernels() noexcept { return registry_; }

  // Submissions.
  // A command buffer counts from its first command to its completion, or until it is dropped.
  Status open_command_buffer();
  void close_command_buffer() noexcept;
  Status record(RecordedPass& pass);
  // With from_open, the command buffer was opened before and now belongs to the submission.
  Result<Submission> submit(const std::shared_ptr<RecordedPass>& pass,
                            std::span<const std::byte> step_bytes, std::string_view label,
                            bool from_open);
  Status wait(SubmissionState& submission, bool count);
  bool is_done(SubmissionState& submission);
  void drop(SubmissionState* submission) noexcept;
  Status fence(bool count);

  struct AtomicCounters {
    std::atomic<std::uint64_t> syncs{0}, dispatches{0}, replayed_dispatches{0}, command_buffers{0},
        barriers{0}, automatic_barriers{0}, elided_barriers{0}, barrier_ns{0};
    Counters read() const noexcept;  // since the device was opened
  };
  AtomicCounters counters;
  Counters read_counters() const noexcept;
  void reset_counters() noexcept;

  std::vector<Error> take_errors();
  ProfileReport profile();
  void reset_profile();
  void log(std::string_view category, std::string_view text) noexcept;

 private:
  friend class KernelRegistry;
  friend class ArenaBlock;

  // state: generation << 32 | references.
  struct BufferEntry {
    std::atomic<std::uint64_t> state{std::uint64_t{1} << 32};
    BufferFacts facts;
    std::atomic<bool> immutable{false};
    bool imported = false;
  };
  static constexpr std::uint32_t chunk_entries = 256;
  static constexpr std::uint32_t max_chunks = 4096;
  struct Deferred {
    Allocation memory;
    std::uint64_t serial;
  };

  DeviceState(std::unique_ptr<Backend> backend, const DeviceOptions& options);
  void count_in_process();
  void leave_process() noexcept;
  BufferEntry* entry(std::uint32_t index) const noexcept;
  Result<std::uint32_t> take_entry();
  void end_entry(std::uint32_t index, BufferEntry& s) noexcept;
  Status lost_status() const;
  void note_error(const Error& e) noexcept;
  // A backend's answer; a lost device is remembered.
  template <class R>
  R noted(R result) noexcept {
    if (!result) note_error(result.error());
    return result;
  }
  void collect_free(std::uint64_t completed) noexcept;
  template <class F>
  Status while_idle(F&& copy);
  // Retires; where something is in flight, waits for the newest of it without the lock first.
  void wait_for_newest(std::unique_lock<std::mutex>& lock);
  Status check_required_locked(RecordedPass& pass);
  bool is_idle_locked() const noexcept { return last_retired_ == last_submitted_; }
  SubmissionState* oldest_locked() noexcept { return in_flight_[last_retired_ + 1]; }
  void retire_locked() noexcept;
  void sample_locked(SubmissionState& s) noexcept;
  void unref_locked(SubmissionState* s) noexcept;
  Status make_room_locked();
  static Error completion_error(const SubmissionState& s);

  std::unique_ptr<Backend> backend_;
  DeviceOptions options_;
  std::span<const KernelRow* const> rows_of(Op op, Format format) const noexcept;
  // Rows that the device has the needs of, as the backend prefers them, sorted by op and format;
  // those of a pair begin at first_row_[place_of(op, format)] and end where the next pair's begin.
  std::vector<const KernelRow*> rows_;
  std::vector<std::uint32_t> first_row_;

  mutable std::mutex table_mutex_;
  std::array<std::atomic<BufferEntry*>, max_chunks> chunks_{};
  std::vector<std::unique_ptr<BufferEntry[]>> chunk_storage_;
  std::vector<std::uint32_t> free_entries_;
  std::vector<Deferred> deferred_;
  std::vector<Allocation> arena_cache_;
  std::atomic<std::uint64_t> free_epoch_{0};
  std::atomic<std::uint64_t> live_bytes_{0};
  std::atomic<std::uint64_t> next_region_{1};
  std::uint64_t live_buffers_ = 0;

  mutable std::shared_mutex kernel_mutex_;
  std::deque<KernelEntry> kernel_storage_;
  static constexpr std::uint32_t max_kernels = 1u << 16;
  std::array<std::atomic<const KernelEntry*>, 256> kernel_cache_{};  // the first ids, lock-free
  std::map<std::string, std::uint32_t, std::less<>> sources_;        // name to entry
  std::map<std::string, std::uint32_t, std::less<>> builds_;         // label to entry
  KernelRegistry registry_;

  std::mutex submit_mutex_;
  SerialRing<SubmissionState*> in_flight_;  // (last_retired_, last_submitted_]
  std::size_t open_buffers_ = 0;
  std::uint64_t last_submitted_ = 0, last_retired_ = 0;
  std::atomic<std::uint64_t> last_submitted_atomic_{0};
  std::vector<std::unique_ptr<SubmissionState>> submission_storage_;
  std::vector<SubmissionState*> submission_free_;
  std::atomic<bool> lost_{false};

  mutable std::mutex counters_mutex_;
  Counters counters_base_;  // at the last reset

  std::mutex log_mutex_;
  std::vector<Error> errors_;
  std::vector<DispatchSample> samples_;
  std::vector<WorkerSlice> slices_;
  std::map<std::string, LabelTimes> label_times_;
  std::uint64_t samples_dropped_ = 0;
};

// Calls options.log, if there is one.
void tell(const DeviceOptions& options, std::string_view category, std::string_view text) noexcept;

// Every backend compiled in, in the order they are listed. core knows their names only.
struct BackendEntry {
  const char* name;  // "cpu", "null"; devices of it are "name" or "name:index"
  std::vector<DeviceListing> (*list)();
  Result<std::unique_ptr<Backend>> (*open)(std::uint32_t index, const DeviceOptions& options);
  bool card = false;  // its devices are faster than the host's cores
};
std::span<const BackendEntry> backend_list() noexcept;
// What Device::open gives a device instead of the backend that it opened; null: that backend. Test
// programs set it before they open one.
using WrapBackend = std::unique_ptr<Backend> (*)(std::unique_ptr<Backend>);
void wrap_backends(WrapBackend wrap) noexcept;
// The first device that opens: cards before others, never "null". options.log is told of every
// device that was passed over and why; a backend without devices is not worth a word.
Result<std::unique_ptr<Backend>> open_best(std::span<const BackendEntry> entries,
                                           const DeviceOptions& options);

}  // namespace onepass
