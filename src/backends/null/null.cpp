#include "backends/null/null.h"

#include <algorithm>
#include <new>

#include "core/os.h"

namespace onepass {
namespace {

struct NullRecorded final : Recorded {
  std::size_t index = 0;  // of its counts
  BoundView step;
  std::uint64_t last_ns = 0;
  bool timed = false;
};

}  // namespace

NullBackend::NullBackend(KernelTable kernels)
    : HostBackend(host_device_info("null", 1)), kernels_(kernels) {
  info_.description = "runs nothing";
  calls_.reserve(log_size);
}

void NullBackend::note_locked(BackendCall kind, std::uint64_t value) noexcept {
  ++counts_[static_cast<std::size_t>(kind)];
  if (calls_.size() < log_size) calls_.push_back(Call{kind, value});
}

void NullBackend::note(BackendCall kind, std::uint64_t value) noexcept {
  const std::lock_guard lock(mutex_);
  note_locked(kind, value);
}

std::vector<NullBackend::Call> NullBackend::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::uint64_t NullBackend::count(BackendCall kind) const noexcept {
  const std::lock_guard lock(mutex_);
  return counts_[static_cast<std::size_t>(kind)];
}

std::vector<NullBackend::Counts> NullBackend::recordings() const {
  const std::lock_guard lock(mutex_);
  return recordings_;
}

void NullBackend::clear_log() {
  const std::lock_guard lock(mutex_);
  calls_.clear();
  counts_.fill(0);
}

Result<Allocation> NullBackend::allocate(std::uint64_t bytes, MemoryKind kind, bool zero) {
  note(BackendCall::allocate, bytes);
  return HostBackend::allocate(bytes, kind, zero);
}

void NullBackend::release(const Allocation& memory) noexcept {
  note(BackendCall::release, memory.bytes);
  HostBackend::release(memory);
}

Status NullBackend::write(const Allocation& memory, std::uint64_t offset,
                          std::span<const std::byte> bytes) {
  note(BackendCall::write, bytes.size());
  return HostBackend::write(memory, offset, bytes);
}

Status NullBackend::read(const Allocation& memory, std::uint64_t offset,
                         std::span<std::byte> bytes) {
  note(BackendCall::read, bytes.size());
  return HostBackend::read(memory, offset, bytes);
}

Result<std::byte*> NullBackend::map(const Allocation& memory) {
  note(BackendCall::map, memory.bytes);
  return HostBackend::map(memory);
}

Result<std::unique_ptr<Recorded>> NullBackend::record(const Recording& recording,
                                                      const Order& order) {
  Counts counts;
  counts.launches = count_dispatches(recording);
  counts.fences = static_cast<std::uint32_t>(recording.launches.size()) - counts.launches;
  counts.levels = recording.launches.empty() ? 0 : recording.launches.back().level + 1;
  counts.edges = static_cast<std::uint32_t>(order.edges.size());
  counts.step_bytes = recording.step.bytes;
  counts.order = order.kind;
  counts.replayed = recording.replayed;
  counts.timed = recording.timed;
  for (const RecordedLaunch& l : recording.launches) {
    if (l.is_fence()) continue;
    counts.views += l.n_views;
    counts.tiles += l.launch.tiles;
    counts.scratch_bytes += l.scratch.bytes;
  }
  try {
    auto recorded = std::make_unique<NullRecorded>();
    recorded->step = recording.step;
    recorded->timed = recording.timed;
    const std::lock_guard lock(mutex_);
    note_locked(BackendCall::record, recording.launches.size());
    recorded->index = recordings_.size();
    recordings_.push_back(counts);
    return std::unique_ptr<Recorded>(std::move(recorded));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "null: no memory for a recording");
  }
}

Status NullBackend::submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                           Completion& completion) {
  auto& null = static_cast<NullRecorded&>(recorded);
  const std::lock_guard lock(mutex_);
  note_locked(BackendCall::submit, step_bytes.size());
  ++recordings_[null.index].submissions;
  write_step(null.step, step_bytes);
  null.last_ns = os::now_ns();
  completion.failed.store(false, std::memory_order_relaxed);
  completion.serial = ++serial_;
  completion.span = {null.last_ns, null.last_ns};
  completion.done.store(true, std::memory_order_release);
  return {};
}

void NullBackend::wait(Completion&) { note(BackendCall::wait); }

bool NullBackend::poll(Completion& completion) {
  note(BackendCall::poll);
  return completion.done.load(std::memory_order_acquire);
}

Status NullBackend::timestamps(Recorded& recorded, std::span<TimeSpan> out) {
  const auto& null = static_cast<const NullRecorded&>(recorded);
  const std::lock_guard lock(mutex_);
  note_locked(BackendCall::timestamps, 0);
  if (!null.timed) return fail(ErrorCode::invalid_state, "timestamps: the recording was not timed");
  std::fill(out.begin(), out.end(), TimeSpan{null.last_ns, null.last_ns});
  return {};
}

std::unique_ptr<Backend> make_null_backend(const DeviceOptions&) {
  return std::make_unique<NullBackend>();
}

}  // namespace onepass
