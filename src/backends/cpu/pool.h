// Worker threads that run submissions in order, and the tiles of one submission in any order its
// dependencies allow.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "backends/cpu/cpu.h"
#include "core/backend.h"
#include "core/serial_ring.h"

namespace onepass::cpu {

inline constexpr std::size_t cache_line = 64;

class Pool;

// A recording as the workers see it. Counters only grow: pass number `epoch` of this object, from
// 1, has finished launch i when done == epoch * tiles, so nothing is reset between passes.
class RecordedTasks final : public Recorded {
 public:
  static Result<std::unique_ptr<RecordedTasks>> create(Pool& pool, const Recording& recording,
                                                       const Order& order);
  ~RecordedTasks() override;  // waits until no worker looks at it

  std::uint32_t size() const noexcept { return tasks_.size(); }
  bool timed() const noexcept { return spans_ != nullptr; }
  TimeSpan span(std::uint32_t i) const noexcept;
  // Of the last pass, worker by worker.
  void append_slices(std::vector<WorkSlice>& out) const;

 private:
  friend class Pool;

  struct alignas(cache_line) Item {
    std::atomic<std::uint64_t> next{0};  // low half of the epoch << 32 | next tile
    std::atomic<std::uint64_t> done{0};  // tiles finished in all passes
    std::uint32_t tiles = 1;
    std::uint32_t preds_begin = 0, preds_end = 0;
    std::uint32_t after = 0;  // all launches before this one have to be done
    bool sink = false;        // the pass is over when all sinks are
  };
  struct Span {
    std::atomic<std::uint64_t> start_ns{0}, end_ns{0};
  };

  // What one worker did in a timed pass; only that worker writes it.
  struct alignas(cache_line) Log {
    std::uint64_t epoch = 0;
    std::uint32_t count = 0;
    std::vector<WorkSlice> slices;  // never grows; what exceeds it is left out

    void add(std::uint64_t at, std::uint32_t launch, const TimeSpan& span) noexcept;
  };

  // What one worker knows of the pass it is in.
  struct Cursor {
    std::uint64_t epoch = 0;
    std::uint32_t worker = 0;
    std::uint32_t first = 0;   // every launch before it has no tile left
    std::uint32_t prefix = 0;  // every launch before it is done
  };
  enum class Claim { taken, exhausted, not_ready, over };

  explicit RecordedTasks(Pool& pool) noexcept : pool_(&pool) {}
  bool is_done(const Item& item, std::uint64_t epoch) const noexcept {
    return item.done.load(std::memory_order_acquire) >= epoch * item.tiles;
  }
  bool is_ready(const Item& item, Cursor& cursor) const noexcept;
  Claim claim(std::uint32_t i, Cursor& cursor, std::uint32_t& tile) noexcept;
  // True for the last tile of the pass.
  bool run_tile(std::uint32_t i, std::uint32_t tile, const Cursor& cursor) noexcept;
  void run_all() noexcept;  // on the calling thread

  Pool* pool_;
  TaskList tasks_;
  std::unique_ptr<Item[]> items_;
  std::vector<std::uint32_t> preds_;
  std::unique_ptr<Span[]> spans_;
  std::vector<Log> logs_;  // by worker; with spans_ only
  BoundView step_;
  std::uint32_t n_sinks_ = 0;
  std::atomic<std::uint64_t> epoch_{0};
  alignas(cache_line) std::atomic<std::uint32_t> sinks_left_{0};
};

class Pool {
 public:
  // threads counts the waiting thread; at least 1. queue: submissions not yet done.
  Pool(std::uint32_t threads, bool pin, std::uint32_t spin_us, std::uint32_t queue);
  ~Pool();  // finishes what was submitted
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::uint32_t threads() const noexcept { return static_cast<std::uint32_t>(workers_.size()) + 1; }
  // Numbers of workers, the waiting thread's included; it is the last.
  std::uint32_t worker_count() const noexcept { return n_inside_; }

  // Makes room for step bytes of this size in every queue entry.
  void reserve_step(std::size_t bytes);
  void submit(RecordedTasks& pass, std::span<const std::byte> step_bytes,
              Completion& completion) noexcept;
  // Returns when the submission of that serial and all before it are done.
  void wait(std::uint64_t serial) noexcept;
  void wait_all() noexcept;
  // Returns when no worker holds a pointer to the pass.
  void wait_unused(const RecordedTasks& pass) const noexcept;

 private:
  struct Entry {
    RecordedTasks* pass = nullptr;
    Completion* completion = nullptr;
    std::size_t step_bytes = 0;
    std::uint64_t start_ns = 0;
  };
  struct alignas(cache_line) Inside {
    std::atomic<const RecordedTasks*> pass{nullptr};
  };

  void run_worker(std::uint32_t worker) noexcept;
  // Takes part in what is running, as `worker`, until there is nothing left to take or the
  // submission `until` is done.
  void take_part(std::uint32_t worker, std::uint64_t until) noexcept;
  void run_tiles(RecordedTasks& pass, std::uint32_t worker, std::uint64_t until) noexcept;
  void finish_pass() noexcept;
  // True when it started a pass. Nothing may be active.
  bool start_next_locked() noexcept;
  void complete_locked(Entry& entry) noexcept;
  void submit_inline(RecordedTasks& pass, std::span<const std::byte> step_bytes,
                     Completion& completion) noexcept;
  // One step of waiting inside a pass.
  void idle(std::uint32_t& n) const noexcept;
  std::byte* step_of(std::uint64_t serial) noexcept {
    return step_store_.data() + entries_.place(serial) * step_stride_;
  }

  const std::uint32_t spin_us_;
  const std::uint32_t n_inside_;
  std::uint32_t spins_ = 0;  // polls before a worker inside a pass yields its core

  std::mutex mutex_;  // guards everything up to the atomics
  std::condition_variable work_;
  std::condition_variable done_;
  SerialRing<Entry> entries_;
  std::vector<std::byte> step_store_;
  std::size_t step_stride_ = 0;
  std::uint64_t submitted_ = 0;  // serial of the last submission; the first is 1
  std::uint32_t sleeping_ = 0;   // workers in work_
  std::uint32_t blocked_ = 0;    // threads in done_
  bool helped_ = false;          // a waiting thread is at work

  alignas(cache_line) std::atomic<std::uint64_t> ticket_{0};  // grows with every pass started
  std::atomic<RecordedTasks*> active_{nullptr};
  std::atomic<bool> stop_{false};
  alignas(cache_line) std::atomic<std::uint64_t> completed_{0};  // serial
  std::unique_ptr<Inside[]> inside_;  // by worker; the last is the waiting thread's
  std::vector<std::thread> workers_;
};

}  // namespace onepass::cpu
