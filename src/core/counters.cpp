// Counters only grow; a reset remembers where they stood. So the process-wide totals cost nothing
// where something is counted.
#include <algorithm>

#include "core/device_state.h"

namespace onepass {
namespace {

template <class F>
Counters combine(const Counters& a, const Counters& b, F f) noexcept {
  return Counters{f(a.syncs, b.syncs),
                  f(a.dispatches, b.dispatches),
                  f(a.replayed_dispatches, b.replayed_dispatches),
                  f(a.command_buffers, b.command_buffers),
                  f(a.barriers, b.barriers),
                  f(a.automatic_barriers, b.automatic_barriers),
                  f(a.elided_barriers, b.elided_barriers),
                  f(a.barrier_ns, b.barrier_ns)};
}
Counters operator+(const Counters& a, const Counters& b) noexcept {
  return combine(a, b, [](std::uint64_t x, std::uint64_t y) { return x + y; });
}
Counters operator-(const Counters& a, const Counters& b) noexcept {
  return combine(a, b, [](std::uint64_t x, std::uint64_t y) { return x - y; });
}

struct Process {
  std::mutex mutex;
  std::vector<const DeviceState*> devices;
  Counters closed;  // of devices that are gone
  Counters base;    // at the last reset

  Counters total() const noexcept {
    Counters sum = closed;
    for (const DeviceState* d : devices) sum = sum + d->counters.read();
    return sum;
  }
};

// Never destroyed: devices may outlive static objects.
Process& process() {
  static Process* const instance = new Process;
  return *instance;
}

}  // namespace

Counters DeviceState::AtomicCounters::read() const noexcept {
  const auto get = [](const std::atomic<std::uint64_t>& c) {
    return c.load(std::memory_order_relaxed);
  };
  return Counters{get(syncs),           get(dispatches), get(replayed_dispatches),
                  get(command_buffers), get(barriers),   get(automatic_barriers),
                  get(elided_barriers), get(barrier_ns)};
}

void DeviceState::count_in_process() {
  const std::lock_guard lock(process().mutex);
  process().devices.push_back(this);
}

void DeviceState::leave_process() noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  if (std::erase(p.devices, this) != 0) p.closed = p.closed + counters.read();
}

Counters DeviceState::read_counters() const noexcept {
  const std::lock_guard lock(counters_mutex_);
  return counters.read() - counters_base_;
}

void DeviceState::reset_counters() noexcept {
  const std::lock_guard lock(counters_mutex_);
  counters_base_ = counters.read();
}

Counters process_counters() noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  return p.total() - p.base;
}

void reset_process_counters() noexcept {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.base = p.total();
}

}  // namespace onepass
