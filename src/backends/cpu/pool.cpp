#include "backends/cpu/pool.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "core/os.h"

namespace onepass::cpu {
namespace {

// How many launches past its cursor a worker looks at. Wide enough for the parallel branches of a
// transformer layer, narrow enough that a fruitless look costs less than a cache miss.
constexpr std::uint32_t window = 16;

constexpr std::uint64_t forever = ~std::uint64_t{0};

}  // namespace

Result<std::unique_ptr<RecordedTasks>> RecordedTasks::create(Pool& pool, const Recording& recording,
                                                             const Order& order) {
  ONEPASS_ASSIGN(TaskList tasks, TaskList::bind(recording, pool.worker_count()));
  std::unique_ptr<RecordedTasks> pass(new RecordedTasks(pool));
  pass->tasks_ = std::move(tasks);
  const std::uint32_t n = pass->size();
  pass->items_ = std::make_unique<Item[]>(n);
  pass->step_ = recording.step;
  if (recording.timed) {
    pass->spans_ = std::make_unique<Span[]>(n);
    pass->logs_.resize(pool.worker_count());
    for (Log& log : pass->logs_) log.slices.resize(2 * std::size_t{n} + window);
  }

  pass->preds_.reserve(order.edges.size());
  for (const Edge& e : order.edges) pass->preds_.push_back(e.from);
  for (std::uint32_t i = 0; i < n; ++i) {
    Item& item = pass->items_[i];
    item.tiles = pass->tasks_.tiles(i);
    item.sink = order.kind == OrderKind::edges || i + 1 == n;
    if (order.kind == OrderKind::in_order) item.after = i;
    if (order.kind == OrderKind::edges) {
      item.preds_begin = order.edge_offsets[i];
      item.preds_end = order.edge_offsets[i + 1];
    }
  }
  for (const std::uint32_t p : pass->preds_) pass->items_[p].sink = false;
  for (std::uint32_t level = 0; level < order.n_levels(); ++level) {
    const std::uint32_t begin = order.level_offsets[level];
    const std::uint32_t end = order.level_offsets[level + 1];
    for (std::uint32_t i = begin; i < end; ++i) {
      pass->items_[i].after = begin;
      pass->items_[i].sink = end == n;
    }
  }
  for (std::uint32_t i = 0; i < n; ++i) pass->n_sinks_ += pass->items_[i].sink ? 1u : 0u;
  pool.reserve_step(pass->step_.host() ? static_cast<std::size_t>(pass->step_.bytes) : 0);
  return pass;
}

RecordedTasks::~RecordedTasks() { pool_->wait_unused(*this); }

TimeSpan RecordedTasks::span(std::uint32_t i) const noexcept {
  return {spans_[i].start_ns.load(std::memory_order_relaxed),
          spans_[i].end_ns.load(std::memory_order_relaxed)};
}

void RecordedTasks::append_slices(std::vector<WorkSlice>& out) const {
  const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
  const std::size_t n = logs_.size();
  for (std::size_t k = 0; k < n; ++k) {
    const Log& log = logs_[(k + n - 1) % n];  // the waiting thread first
    if (log.epoch != epoch) continue;
    for (std::uint32_t i = 0; i < log.count; ++i) {
      out.push_back(log.slices[i]);
      out.back().worker = static_cast<std::uint32_t>(k);
    }
  }
}

void RecordedTasks::Log::add(std::uint64_t at, std::uint32_t launch,
                             const TimeSpan& span) noexcept {
  if (epoch != at) {
    epoch = at;
    count = 0;
  }
  if (count > 0 && slices[count - 1].launch == launch) {
    slices[count - 1].span.end_ns = span.end_ns;
  } else if (count < slices.size()) {
    slices[count++] = {0, launch, span};
  }
}

bool RecordedTasks::is_ready(const Item& item, Cursor& cursor) const noexcept {
  while (cursor.prefix < item.after) {
    if (!is_done(items_[cursor.prefix], cursor.epoch)) return false;
    ++cursor.prefix;
  }
  for (std::uint32_t p = item.preds_begin; p < item.preds_end; ++p) {
    if (!is_done(items_[preds_[p]], cursor.epoch)) return false;
  }
  return true;
}

RecordedTasks::Claim RecordedTasks::claim(std::uint32_t i, Cursor& cursor,
                                          std::uint32_t& tile) noexcept {
  Item& item = items_[i];
  const auto epoch = static_cast<std::uint32_t>(cursor.epoch);
  std::uint64_t next = item.next.load(std::memory_order_acquire);
  for (;;) {
    const auto at = static_cast<std::uint32_t>(next >> 32);
    std::uint32_t t = 0;
    if (at == epoch) {
      // Whoever took tile 0 found the launch ready; acquiring `next` shows us what it saw.
      t = static_cast<std::uint32_t>(next);
      if (t >= item.tiles) return Claim::exhausted;
    } else if (at != epoch - 1) {
      return Claim::over;  // a later pass has begun
    } else if (!is_ready(item, cursor)) {
      return Claim::not_ready;
    }
    const std::uint64_t wanted = std::uint64_t{epoch} << 32 | (t + 1);
    if (item.next.compare_exchange_weak(next, wanted, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      tile = t;
      return Claim::taken;
    }
  }
}

bool RecordedTasks::run_tile(std::uint32_t i, std::uint32_t tile, const Cursor& cursor) noexcept {
  const std::uint64_t start = spans_ ? os::now_ns() : 0;
  if (spans_ && tile == 0) spans_[i].start_ns.store(start, std::memory_order_relaxed);
  tasks_.run(i, tile, cursor.worker);
  if (spans_) {
    // The clock only grows, so the maximum over all passes is the last pass's end.
    const std::uint64_t now = os::now_ns();
    logs_[cursor.worker].add(cursor.epoch, i, {start, now});
    std::uint64_t end = spans_[i].end_ns.load(std::memory_order_relaxed);
    while (end < now &&
           !spans_[i].end_ns.compare_exchange_weak(end, now, std::memory_order_relaxed)) {
    }
  }
  Item& item = items_[i];
  const std::uint64_t done = item.done.fetch_add(1, std::memory_order_acq_rel) + 1;
  return item.sink && done == cursor.epoch * item.tiles &&
         sinks_left_.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void RecordedTasks::run_all() noexcept {
  const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  epoch_.store(epoch, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < size(); ++i) {
    const std::uint64_t start = spans_ ? os::now_ns() : 0;
    for (std::uint32_t tile = 0; tile < items_[i].tiles; ++tile) tasks_.run(i, tile);
    if (!spans_) continue;
    const std::uint64_t end = os::now_ns();
    spans_[i].start_ns.store(start, std::memory_order_relaxed);
    spans_[i].end_ns.store(end, std::memory_order_relaxed);
    logs_.back().add(epoch, i, {start, end});
  }
}

Pool::Pool(std::uint32_t threads, bool pin, std::uint32_t spin_us, std::uint32_t queue)
    : spin_us_(os::sanitized ? 0 : spin_us), n_inside_(std::max(threads, 1u)), entries_(queue) {
  if (!os::sanitized) spins_ = threads <= os::core_count() ? 256 : 16;
  inside_ = std::make_unique<Inside[]>(n_inside_);
  workers_.reserve(n_inside_);
  for (std::uint32_t i = 0; i + 1 < n_inside_; ++i) {
    try {
      workers_.emplace_back([this, i, pin] {
        os::name_thread(("onepass-" + std::to_string(i + 1)).c_str());
        if (pin) os::pin_thread(i + 1);
        run_worker(i);
      });
    } catch (const std::exception&) {
      break;  // no thread or no memory for one: the threads there are do the work
    }
  }
}

Pool::~Pool() {
  wait_all();
  {
    const std::lock_guard lock(mutex_);
    stop_.store(true, std::memory_order_release);
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Pool::reserve_step(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes <= step_stride_) return;
  std::vector<std::byte> store(entries_.size() * bytes);
  const std::uint64_t first = completed_.load(std::memory_order_relaxed) + 1;
  for (std::uint64_t serial = first; serial <= submitted_; ++serial) {
    const std::size_t n = entries_[serial].step_bytes;
    if (n > 0) std::memcpy(store.data() + entries_.place(serial) * bytes, step_of(serial), n);
  }
  step_store_.swap(store);
  step_stride_ = bytes;
}

void Pool::submit(RecordedTasks& pass, std::span<const std::byte> step_bytes,
                  Completion& completion) noexcept {
  completion.failed.store(false, std::memory_order_relaxed);
  completion.done.store(false, std::memory_order_relaxed);
  if (workers_.empty()) return submit_inline(pass, step_bytes, completion);
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    while (submitted_ - completed_.load(std::memory_order_relaxed) == entries_.size()) {
      ++blocked_;
      done_.wait(lock);
      --blocked_;
    }
    const bool is_idle = completed_.load(std::memory_order_relaxed) == submitted_;
    const std::uint64_t serial = ++submitted_;
    completion.serial = serial;
    Entry& entry = entries_[serial];
    entry.pass = &pass;
    entry.completion = &completion;
    entry.step_bytes = std::min(step_bytes.size(), step_stride_);
    if (entry.step_bytes > 0) std::memcpy(step_of(serial), step_bytes.data(), entry.step_bytes);
    if (is_idle) wake = start_next_locked() && sleeping_ > 0;
  }
  if (wake) work_.notify_all();
}

void Pool::submit_inline(RecordedTasks& pass, std::span<const std::byte> step_bytes,
                         Completion& completion) noexcept {
  const std::lock_guard lock(mutex_);
  completion.serial = ++submitted_;
  completion.span.start_ns = os::now_ns();
  write_step(pass.step_, step_bytes);
  pass.run_all();
  completion.span.end_ns = os::now_ns();
  completion.done.store(true, std::memory_order_release);
  completed_.store(submitted_, std::memory_order_release);
}

bool Pool::start_next_locked() noexcept {
  for (;;) {
    const std::uint64_t serial = completed_.load(std::memory_order_relaxed) + 1;
    if (serial > submitted_) return false;
    Entry& entry = entries_[serial];
    RecordedTasks& pass = *entry.pass;
    entry.start_ns = os::now_ns();
    write_step(pass.step_, {step_of(serial), entry.step_bytes});
    if (pass.size() == 0) {
      complete_locked(entry);
      continue;
    }
    pass.sinks_left_.store(pass.n_sinks_, std::memory_order_relaxed);
    pass.epoch_.store(pass.epoch_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    active_.store(&pass, std::memory_order_seq_cst);
    ticket_.fetch_add(1, std::memory_order_release);
    return true;
  }
}

void Pool::complete_locked(Entry& entry) noexcept {
  Completion& completion = *entry.completion;
  completion.span = {entry.start_ns, os::now_ns()};
  // From here on the caller may destroy the completion.
  completion.done.store(true, std::memory_order_release);
  completed_.store(completed_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void Pool::finish_pass() noexcept {
  bool wake = false;
  bool unblock = false;
  {
    const std::lock_guard lock(mutex_);
    // Before done is seen: whoever then destroys the pass must find it inactive.
    active_.store(nullptr, std::memory_order_seq_cst);
    const std::uint64_t serial = completed_.load(std::memory_order_relaxed) + 1;
    complete_locked(entries_[serial]);
    wake = start_next_locked() && sleeping_ > 0;
    unblock = blocked_ > 0;
  }
  if (unblock) done_.notify_all();
  if (wake) work_.notify_all();
}

void Pool::idle(std::uint32_t& n) const noexcept {
  if (n < spins_) {
    ++n;
    os::pause();
  } else {
    os::yield();
  }
}

void Pool::run_tiles(RecordedTasks& pass, std::uint32_t worker, std::uint64_t until) noexcept {
  RecordedTasks::Cursor cursor;
  cursor.worker = worker;
  cursor.epoch = pass.epoch_.load(std::memory_order_acquire);
  const std::uint32_t n = pass.size();
  std::uint32_t idle_polls = 0;
  while (cursor.first < n) {
    bool taken = false;
    for (std::uint32_t i = cursor.first; i < n && i < cursor.first + window && !taken; ++i) {
      std::uint32_t tile = 0;
      switch (pass.claim(i, cursor, tile)) {
        case RecordedTasks::Claim::taken:
          taken = true;
          if (pass.run_tile(i, tile, cursor)) return finish_pass();
          break;
        case RecordedTasks::Claim::exhausted:
          if (i == cursor.first) ++cursor.first;
          break;
        case RecordedTasks::Claim::not_ready:
          break;
        case RecordedTasks::Claim::over:
          return;
      }
    }
    if (completed_.load(std::memory_order_acquire) >= until) return;
    if (taken) {
      idle_polls = 0;
    } else {
      idle(idle_polls);
    }
  }
}

void Pool::take_part(std::uint32_t worker, std::uint64_t until) noexcept {
  std::atomic<const RecordedTasks*>& inside = inside_[worker].pass;
  RecordedTasks* pass = active_.load(std::memory_order_acquire);
  while (pass) {
    // Announce, then look again: either the pass is still active, or ~RecordedTasks sees the
    // announcement.
    inside.store(pass, std::memory_order_seq_cst);
    RecordedTasks* const again = active_.load(std::memory_order_seq_cst);
    if (again == pass) {
      run_tiles(*pass, worker, until);
      break;
    }
    pass = again;
  }
  inside.store(nullptr, std::memory_order_release);
}

void Pool::run_worker(std::uint32_t worker) noexcept {
  std::uint64_t seen = 0;
  for (;;) {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    if (ticket == seen && spin_us_ > 0) {
      const std::uint64_t end = os::now_ns() + std::uint64_t{spin_us_} * 1000;
      do {
        for (int i = 0; i < 32 && ticket == seen; ++i) {
          os::pause();
          ticket = ticket_.load(std::memory_order_acquire);
        }
      } while (ticket == seen && !stop_.load(std::memory_order_relaxed) && os::now_ns() < end);
    }
    if (ticket == seen) {
      std::unique_lock lock(mutex_);
      ++sleeping_;
      work_.wait(lock, [&] {
        ticket = ticket_.load(std::memory_order_acquire);
        return ticket != seen || stop_.load(std::memory_order_relaxed);
      });
      --sleeping_;
    }
    if (stop_.load(std::memory_order_acquire)) return;
    seen = ticket;
    take_part(worker, forever);
  }
}

void Pool::wait(std::uint64_t serial) noexcept {
  if (completed_.load(std::memory_order_acquire) >= serial) return;
  std::unique_lock lock(mutex_);
  while (completed_.load(std::memory_order_relaxed) < serial) {
    if (helped_) {
      ++blocked_;
      done_.wait(lock);
      --blocked_;
      continue;
    }
    helped_ = true;
    lock.unlock();
    std::uint64_t seen = forever;
    std::uint32_t idle_polls = 0;
    while (completed_.load(std::memory_order_acquire) < serial) {
      const std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
      if (ticket == seen) {
        idle(idle_polls);
        continue;
      }
      seen = ticket;
      idle_polls = 0;
      take_part(n_inside_ - 1, serial);
    }
    lock.lock();
    helped_ = false;
    if (blocked_ > 0) done_.notify_all();
  }
}

void Pool::wait_all() noexcept {
  std::uint64_t serial = 0;
  {
    const std::lock_guard lock(mutex_);
    serial = submitted_;
  }
  wait(serial);
}

void Pool::wait_unused(const RecordedTasks& pass) const noexcept {
  for (std::uint32_t i = 0; i < n_inside_; ++i) {
    while (inside_[i].pass.load(std::memory_order_seq_cst) == &pass) os::yield();
  }
}

}  // namespace onepass::cpu
