#include "support/backends/fault.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace onepass {

const char* name(BackendCall kind) noexcept {
  constexpr std::array<const char*, n_backend_calls> names{
      "allocate", "release", "write", "read", "map",
      "record",   "submit",  "wait",  "poll", "timestamps"};
  return names[static_cast<std::size_t>(kind)];
}

namespace {

ErrorCode default_code(BackendCall kind) noexcept {
  switch (kind) {
    case BackendCall::allocate:
      return ErrorCode::out_of_memory;
    case BackendCall::record:
      return ErrorCode::kernel_build;
    default:
      return ErrorCode::submission_failed;
  }
}

}  // namespace

FaultBackend::FaultBackend(std::unique_ptr<Backend> inner, FaultOptions options)
    : ForwardingBackend(std::move(inner)),
      faults_(std::move(options.faults)),
      hold_(options.hold),
      wait_releases_(options.wait_releases),
      max_open_(options.max_open) {}

std::uint64_t FaultBackend::calls(BackendCall kind) const noexcept {
  return calls_[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
}

void FaultBackend::arm(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  faults_.push_back(fault);
}

void FaultBackend::disarm() {
  const std::lock_guard lock(mutex_);
  faults_.clear();
}

void FaultBackend::lose_device() {
  const std::lock_guard lock(mutex_);
  lost_ = true;
  release_all_locked();
}

void FaultBackend::set_hold(bool hold) {
  const std::lock_guard lock(mutex_);
  hold_ = hold;
  if (!hold) release_all_locked();
}

void FaultBackend::release_held() {
  const std::lock_guard lock(mutex_);
  release_all_locked();
}

std::size_t FaultBackend::held() const {
  const std::lock_guard lock(mutex_);
  return held_.size();
}

std::size_t FaultBackend::open() const {
  const std::lock_guard lock(mutex_);
  return open_.size();
}

std::optional<Error> FaultBackend::check(BackendCall kind) {
  const std::lock_guard lock(mutex_);
  return check_locked(kind);
}

std::optional<Error> FaultBackend::check_locked(BackendCall kind) {
  calls_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  std::optional<Error> error;
  for (Fault& fault : faults_) {
    if (fault.call != kind) continue;
    if (fault.nth > 1) {
      --fault.nth;
    } else if (fault.nth == 1) {
      if (!fault.persistent) fault.nth = 0;
      if (!error) {
        error = make_error(fault.code.value_or(default_code(kind)),
                           std::string("injected failure of ") + name(kind));
      }
    }
  }
  if (lost_)
    error = make_error(ErrorCode::device_lost, std::string(name(kind)) + ": the device is lost");
  return error;
}

bool FaultBackend::is_held_locked(const Completion& completion) const {
  return std::any_of(held_.begin(), held_.end(),
                     [&](const Held& h) { return h.completion == &completion; });
}

void FaultBackend::mark_failed(Completion& completion, const Error& error) {
  if (completion.failed.load(std::memory_order_acquire)) return;
  completion.code = error.code;
  const std::size_t n = std::min(error.message.size(), sizeof completion.text - 1);
  std::memcpy(completion.text, error.message.data(), n);
  completion.text[n] = '\0';
  completion.failed.store(true, std::memory_order_release);
  completion.done.store(true, std::memory_order_release);
}

void FaultBackend::forward_first_locked() {
  const Held held = std::move(held_.front());
  held_.pop_front();
  if (lost_) {
    mark_failed(*held.completion, make_error(ErrorCode::device_lost, "the device is lost"));
    return;
  }
  const Status status = inner_->submit(*held.recorded, held.step_bytes, *held.completion);
  if (!status) mark_failed(*held.completion, status.error());
}

void FaultBackend::release_all_locked() {
  while (!held_.empty()) forward_first_locked();
  released_.notify_all();
}

void FaultBackend::close_locked(const Completion& completion) {
  open_.erase(std::remove(open_.begin(), open_.end(), &completion), open_.end());
}

Result<Allocation> FaultBackend::allocate(std::uint64_t bytes, MemoryKind kind, bool zero) {
  if (std::optional<Error> error = check(BackendCall::allocate)) return std::move(*error);
  return inner_->allocate(bytes, kind, zero);
}

void FaultBackend::release(const Allocation& memory) noexcept {
  calls_[static_cast<std::size_t>(BackendCall::release)].fetch_add(1, std::memory_order_relaxed);
  inner_->release(memory);
}

Status FaultBackend::write(const Allocation& memory, std::uint64_t offset,
                           std::span<const std::byte> bytes) {
  if (std::optional<Error> error = check(BackendCall::write)) return std::move(*error);
  return inner_->write(memory, offset, bytes);
}

Status FaultBackend::read(const Allocation& memory, std::uint64_t offset,
                          std::span<std::byte> bytes) {
  if (std::optional<Error> error = check(BackendCall::read)) return std::move(*error);
  return inner_->read(memory, offset, bytes);
}

Result<std::byte*> FaultBackend::map(const Allocation& memory) {
  if (std::optional<Error> error = check(BackendCall::map)) return std::move(*error);
  return inner_->map(memory);
}

Result<std::unique_ptr<Recorded>> FaultBackend::record(const Recording& recording,
                                                       const Order& order) {
  if (std::optional<Error> error = check(BackendCall::record)) return std::move(*error);
  return inner_->record(recording, order);
}

Status FaultBackend::submit(Recorded& recorded, std::span<const std::byte> step_bytes,
                            Completion& completion) {
  // The lock is kept so that the inner backend sees the order of the calls.
  const std::lock_guard lock(mutex_);
  if (std::optional<Error> error = check_locked(BackendCall::submit)) return std::move(*error);
  if (max_open_ > 0) {
    close_locked(completion);
    if (open_.size() >= max_open_) {
      return fail(ErrorCode::submission_failed, "submit: " + std::to_string(open_.size()) +
                                                    " submissions are open, at most " +
                                                    std::to_string(max_open_) + " may be");
    }
  }
  if (hold_) {
    completion.done.store(false, std::memory_order_relaxed);
    completion.failed.store(false, std::memory_order_relaxed);
    held_.push_back(Held{&recorded, &completion, {step_bytes.begin(), step_bytes.end()}});
  } else {
    ONEPASS_TRY(inner_->submit(recorded, step_bytes, completion));
  }
  if (max_open_ > 0) open_.push_back(&completion);
  return {};
}

void FaultBackend::wait(Completion& completion) {
  const bool was_done = completion.done.load(std::memory_order_acquire);
  std::unique_lock lock(mutex_);
  std::optional<Error> error = check_locked(BackendCall::wait);
  if (lost_ && was_done) error.reset();  // it had completed before the device went away
  if (is_held_locked(completion)) {
    if (wait_releases_) {
      while (held_.front().completion != &completion) forward_first_locked();
      if (error) {
        held_.pop_front();
        mark_failed(completion, *error);
      } else {
        forward_first_locked();
      }
      released_.notify_all();
    } else {
      released_.wait(lock, [&] { return !is_held_locked(completion); });
    }
  }
  lock.unlock();
  if (!completion.failed.load(std::memory_order_acquire)) inner_->wait(completion);
  lock.lock();
  if (error) mark_failed(completion, *error);
  close_locked(completion);
}

bool FaultBackend::poll(Completion& completion) {
  calls_[static_cast<std::size_t>(BackendCall::poll)].fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (is_held_locked(completion)) return false;
  if (!completion.done.load(std::memory_order_acquire) && !inner_->poll(completion)) return false;
  close_locked(completion);
  return true;
}

Status FaultBackend::timestamps(Recorded& recorded, std::span<TimeSpan> out) {
  if (std::optional<Error> error = check(BackendCall::timestamps)) return std::move(*error);
  return inner_->timestamps(recorded, out);
}

}  // namespace onepass
