// The buffer table: entries with generation and reference count in one word, so that ids can be
// checked and retained without a lock.
#include <algorithm>
#include <cstring>

#include "core/device_state.h"
#include "core/guarded.h"

namespace onepass {
namespace {

constexpr std::uint32_t generation_of(std::uint64_t state) {
  return static_cast<std::uint32_t>(state >> 32);
}
constexpr std::uint32_t references_of(std::uint64_t state) {
  return static_cast<std::uint32_t>(state);
}
constexpr std::uint64_t pack(std::uint32_t generation, std::uint32_t references) {
  return std::uint64_t{generation} << 32 | references;
}
constexpr std::uint32_t next_generation(std::uint32_t g) { return g + 1 == 0 ? 1 : g + 1; }

constexpr std::uint64_t host_region = 0;
constexpr std::size_t max_cached_arenas = 8;

std::string range_text(const View& v) {
  return "bytes [" + std::to_string(v.offset) + ", +" + std::to_string(v.bytes) + ")";
}

}  // namespace

DeviceState::BufferEntry* DeviceState::entry(std::uint32_t index) const noexcept {
  const std::uint32_t chunk = index / chunk_entries;
  if (chunk >= max_chunks) return nullptr;
  BufferEntry* entries = chunks_[chunk].load(std::memory_order_acquire);
  return entries ? entries + index % chunk_entries : nullptr;
}

// Reserves what a later release needs, so that freeing never allocates.
Result<std::uint32_t> DeviceState::take_entry() {
  if (deferred_.capacity() < deferred_.size() + live_buffers_ + 1) {
    deferred_.reserve(2 * (deferred_.size() + live_buffers_ + 1));
  }
  if (free_entries_.empty()) {
    const auto chunk = static_cast<std::uint32_t>(chunk_storage_.size());
    if (chunk == max_chunks) {
      return fail(ErrorCode::limit,
                  "allocate: more than " + std::to_string(max_chunks * chunk_entries) + " buffers");
    }
    free_entries_.reserve(std::size_t{chunk_entries} * (chunk + 1));
    chunk_storage_.reserve(chunk + 1);
    chunk_storage_.push_back(std::make_unique<BufferEntry[]>(chunk_entries));
    chunks_[chunk].store(chunk_storage_.back().get(), std::memory_order_release);
    for (std::uint32_t i = chunk_entries; i-- > 0;)
      free_entries_.push_back(chunk * chunk_entries + i);
  }
  const std::uint32_t index = free_entries_.back();
  free_entries_.pop_back();
  ++live_buffers_;
  return index;
}

Result<Buffer> DeviceState::allocate(std::uint64_t bytes, const AllocateOptions& options) {
  return guarded([&]() -> Result<Buffer> {
    ONEPASS_TRY(lost_status());
    if (bytes == 0) return fail(ErrorCode::invalid_argument, "allocate: 0 bytes");
    if (bytes > info().max_buffer_bytes) {
      return fail(ErrorCode::out_of_memory, "allocate: " + std::to_string(bytes) +
                                                " bytes, the device's limit is " +
                                                std::to_string(info().max_buffer_bytes));
    }
    std::uint32_t index = 0;
    {
      const std::lock_guard lock(table_mutex_);
      ONEPASS_ASSIGN(index, take_entry());
    }
    Result<Allocation> memory =
        guarded([&] { return backend_->allocate(bytes, options.kind, options.zero); });
    const std::lock_guard lock(table_mutex_);
    if (!memory) {
      free_entries_.push_back(index);
      --live_buffers_;
      note_error(memory.error());
      return std::move(memory).error();
    }
    BufferEntry& s = *entry(index);
    s.facts = BufferFacts{*memory, bytes, next_region_.fetch_add(1), 0, false};
    s.immutable = false;
    s.imported = false;
    live_bytes_ += memory->bytes;
    const std::uint32_t generation = generation_of(s.state.load(std::memory_order_relaxed));
    s.state.store(pack(generation, 1), std::memory_order_release);
    return Buffer(shared_from_this(), BufferId{index, generation}, bytes);
  });
}

Result<Buffer> DeviceState::import_host(std::span<std::byte> memory) {
  return guarded([&]() -> Result<Buffer> {
    ONEPASS_TRY(lost_status());
    if (!info().unified_memory) {
      return fail(ErrorCode::unsupported, "import_host: " + info().name + " has memory of its own");
    }
    if (memory.empty()) return fail(ErrorCode::invalid_argument, "import_host: 0 bytes");
    const std::lock_guard lock(table_mutex_);
    ONEPASS_ASSIGN(const std::uint32_t index, take_entry());
    BufferEntry& s = *entry(index);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    s.facts = BufferFacts{Allocation{address, memory.data(), memory.size()}, memory.size(),
                          host_region, address, false};
    s.immutable = false;
    s.imported = true;
    const std::uint32_t generation = generation_of(s.state.load(std::memory_order_relaxed));
    s.state.store(pack(generation, 1), std::memory_order_release);
    return Buffer(shared_from_this(), BufferId{index, generation}, memory.size());
  });
}

bool DeviceState::retain(BufferId id) noexcept {
  BufferEntry* s = entry(id.index);
  if (s == nullptr || id.generation == 0) return false;
  std::uint64_t state = s->state.load(std::memory_order_relaxed);
  do {
    if (generation_of(state) != id.generation || references_of(state) == 0) return false;
  } while (!s->state.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                           std::memory_order_relaxed));
  return true;
}

void DeviceState::release(BufferId id) noexcept {
  BufferEntry* s = entry(id.index);
  if (s == nullptr) return;
  if (references_of(s->state.fetch_sub(1, std::memory_order_acq_rel)) == 1) {
    const std::lock_guard lock(table_mutex_);
    end_entry(id.index, *s);
  }
}

// Under table_mutex_, with the last reference gone.
void DeviceState::end_entry(std::uint32_t index, BufferEntry& s) noexcept {
  const std::uint32_t generation = generation_of(s.state.load(std::memory_order_relaxed));
  const Allocation memory = s.facts.memory;
  const bool imported = s.imported;
  s.state.store(pack(next_generation(generation), 0), std::memory_order_release);
  free_epoch_.fetch_add(1, std::memory_order_seq_cst);
  free_entries_.push_back(index);
  --live_buffers_;
  if (imported) return;
  deferred_.push_back({memory, last_submitted_atomic_.load(std::memory_order_seq_cst)});
}

void DeviceState::collect_free(std::uint64_t completed) noexcept {
  const std::lock_guard lock(table_mutex_);
  const auto keep = std::remove_if(deferred_.begin(), deferred_.end(), [&](const Deferred& d) {
    if (d.serial > completed) return false;
    live_bytes_ -= d.memory.bytes;
    backend_->release(d.memory);
    return true;
  });
  deferred_.erase(keep, deferred_.end());
}

std::uint32_t DeviceState::references(BufferId id) const noexcept {
  const BufferEntry* s = entry(id.index);
  if (s == nullptr || id.generation == 0) return 0;
  const std::uint64_t state = s->state.load(std::memory_order_acquire);
  return generation_of(state) == id.generation ? references_of(state) : 0;
}

BufferFacts DeviceState::facts(BufferId id) const noexcept {
  const BufferEntry* s = entry(id.index);
  BufferFacts facts = s->facts;
  facts.immutable = s->immutable.load(std::memory_order_relaxed);
  return facts;
}

Status DeviceState::set_immutable(BufferId id) {
  if (!retain(id)) return fail(ErrorCode::stale, "set_immutable: the buffer was freed");
  entry(id.index)->immutable.store(true, std::memory_order_relaxed);
  release(id);
  return {};
}

Result<BufferId> DeviceState::renew(BufferId id) {
  const std::lock_guard lock(table_mutex_);
  BufferEntry* s = entry(id.index);
  std::uint64_t expected = pack(id.generation, 1);
  const std::uint32_t generation = next_generation(id.generation);
  if (s == nullptr || !s->state.compare_exchange_strong(expected, pack(generation, 1))) {
    return fail(ErrorCode::invalid_state, "renew: the buffer has other owners");
  }
  free_epoch_.fetch_add(1, std::memory_order_acq_rel);
  return BufferId{id.index, generation};
}

Buffer DeviceState::adopt(BufferId id, std::uint64_t bytes) noexcept {
  return Buffer(shared_from_this(), id, bytes);
}

namespace {

// Holds a reference while host access is under way.
class Retained {
 public:
  Retained(DeviceState& device, BufferId id) : device_(device), id_(id), ok_(device.retain(id)) {}
  ~Retained() {
    if (ok_) device_.release(id_);
  }
  Retained(const Retained&) = delete;
  Retained& operator=(const Retained&) = delete;
  bool ok() const { return ok_; }

 private:
  DeviceState& device_;
  BufferId id_;
  bool ok_;
};

Status check_host_access(const char* what, const BufferFacts& facts, const View& view,
                         std::uint64_t bytes) {
  if (view.offset > facts.bytes || view.bytes > facts.bytes - view.offset) {
    return fail(ErrorCode::invalid_argument, std::string(what) + ": " + range_text(view) +
                                                 " of a buffer of " + std::to_string(facts.bytes) +
                                                 " bytes");
  }
  if (bytes > view.bytes) {
    return fail(ErrorCode::invalid_argument, std::string(what) + ": " + std::to_string(bytes) +
                                                 " bytes through a view of " +
                                                 std::to_string(view.bytes));
  }
  return {};
}

}  // namespace

// Copies while nothing runs: a pass of another thread's may not write what is being read. One wait
// for what is in flight, unless other threads submit meanwhile.
template <class F>
Status DeviceState::while_idle(F&& copy) {
  std::unique_lock lock(submit_mutex_);
  wait_for_newest(lock);
  while (!is_idle_locked()) {
    backend_->wait(oldest_locked()->completion);
    retire_locked();
  }
  ONEPASS_TRY(lost_status());
  return noted(copy());
}

Status DeviceState::write(const View& view, std::span<const std::byte> bytes) {
  return guarded([&]() -> Status {
    ONEPASS_TRY(lost_status());
    const Retained hold(*this, view.buffer);
    if (!hold.ok()) return fail(ErrorCode::stale, "write: the buffer was freed");
    const BufferFacts facts = this->facts(view.buffer);
    ONEPASS_TRY(check_host_access("write", facts, view, bytes.size()));
    return while_idle([&] { return backend_->write(facts.memory, view.offset, bytes); });
  });
}

Status DeviceState::read(const View& view, std::span<std::byte> bytes) {
  return guarded([&]() -> Status {
    ONEPASS_TRY(lost_status());
    const Retained hold(*this, view.buffer);
    if (!hold.ok()) return fail(ErrorCode::stale, "read: the buffer was freed");
    const BufferFacts facts = this->facts(view.buffer);
    ONEPASS_TRY(check_host_access("read", facts, view, bytes.size()));
    return while_idle([&] { return backend_->read(facts.memory, view.offset, bytes); });
  });
}

Status DeviceState::read_after(SubmissionState& submission, const View& view,
                               std::span<std::byte> bytes) {
  return guarded([&]() -> Status {
    const Retained hold(*this, view.buffer);
    if (!hold.ok()) return fail(ErrorCode::stale, "read: the buffer was freed");
    const BufferFacts facts = this->facts(view.buffer);
    ONEPASS_TRY(check_host_access("read", facts, view, bytes.size()));
    if (facts.memory.host == nullptr) {
      return fail(ErrorCode::unsupported,
                  "read: " + info().name +
                      " has memory of its own; expected readback memory, or Device::read");
    }
    ONEPASS_TRY(wait(submission, true));
    if (!bytes.empty()) {
      std::memcpy(bytes.data(), facts.memory.host + view.offset, bytes.size());
    }
    return {};
  });
}

Result<std::span<std::byte>> DeviceState::map(const View& view) {
  return guarded([&]() -> Result<std::span<std::byte>> {
    ONEPASS_TRY(lost_status());
    const Retained hold(*this, view.buffer);
    if (!hold.ok()) return fail(ErrorCode::stale, "map: the buffer was freed");
    const BufferFacts facts = this->facts(view.buffer);
    ONEPASS_TRY(check_host_access("map", facts, view, view.bytes));
    ONEPASS_TRY(fence(false));
    ONEPASS_ASSIGN(std::byte* const base, noted(backend_->map(facts.memory)));
    return std::span<std::byte>(base + view.offset, view.bytes);
  });
}

Result<std::shared_ptr<ArenaBlock>> DeviceState::arena(std::uint64_t bytes, bool zero) {
  Allocation memory;
  if (!zero) {
    const std::lock_guard lock(table_mutex_);
    auto best = arena_cache_.end();
    for (auto it = arena_cache_.begin(); it != arena_cache_.end(); ++it) {
      const bool fits = it->bytes >= bytes && it->bytes <= 4 * bytes + (1u << 20);
      if (fits && (best == arena_cache_.end() || it->bytes < best->bytes)) best = it;
    }
    if (best != arena_cache_.end()) {
      memory = *best;
      arena_cache_.erase(best);
    }
  }
  if (memory.handle == 0) {
    ONEPASS_ASSIGN(memory, noted(backend_->allocate(bytes, MemoryKind::device, zero)));
    live_bytes_ += memory.bytes;
  }
  try {
    {
      const std::lock_guard lock(table_mutex_);
      arena_cache_.reserve(max_cached_arenas);
    }
    return std::make_shared<ArenaBlock>(*this, memory, next_region_.fetch_add(1), !zero);
  } catch (...) {
    live_bytes_ -= memory.bytes;
    backend_->release(memory);
    throw;
  }
}

// No pass that uses the block is in flight when its last owner goes.
ArenaBlock::~ArenaBlock() {
  const std::lock_guard lock(device_->table_mutex_);
  if (reusable_ && device_->arena_cache_.size() < max_cached_arenas) {
    device_->arena_cache_.push_back(memory_);
  } else {
    device_->live_bytes_ -= memory_.bytes;
    device_->backend_->release(memory_);
  }
}

}  // namespace onepass
