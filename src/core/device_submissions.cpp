// The queue of submissions: in order and bounded. There is no thread of its own: calls that submit,
// wait or ask retire what has completed.
#include <algorithm>
#include <cstring>

#include "core/device_state.h"
#include "core/guarded.h"

namespace onepass {

RecordedPass::~RecordedPass() {
  recorded.reset();
  for (const BufferId id : retained) device->release(id);
}

Status DeviceState::lost_status() const {
  if (!lost_.load(std::memory_order_relaxed)) return {};
  return fail(ErrorCode::device_lost, "the device " + backend_->info().name + " was lost");
}

void DeviceState::note_error(const Error& e) noexcept {
  if (e.code == ErrorCode::device_lost) lost_.store(true, std::memory_order_relaxed);
}

Error DeviceState::completion_error(const SubmissionState& s) {
  std::string text = s.label.empty()
                         ? std::string("submission ") + std::to_string(s.serial)
                         : "submission " + std::to_string(s.serial) + " '" + s.label + "'";
  return make_error(s.completion.code, text + ": " + s.completion.text);
}

// Under submit_mutex_: one more command buffer may be opened. Waits only for work that is running,
// so it cannot block for good.
Status DeviceState::make_room_locked() {
  retire_locked();
  while (open_buffers_ + (last_submitted_ - last_retired_) >= options_.command_buffers) {
    if (is_idle_locked()) {
      return fail(ErrorCode::limit, "all " + std::to_string(options_.command_buffers) +
                                        " command buffers are open and none was committed");
    }
    backend_->wait(oldest_locked()->completion);
    retire_locked();
  }
  return {};
}

Status DeviceState::open_command_buffer() {
  return guarded([&]() -> Status {
    ONEPASS_TRY(lost_status());
    const std::lock_guard lock(submit_mutex_);
    ONEPASS_TRY(make_room_locked());
    ++open_buffers_;
    counters.command_buffers.fetch_add(1, std::memory_order_relaxed);
    return {};
  });
}

void DeviceState::close_command_buffer() noexcept {
  const std::lock_guard lock(submit_mutex_);
  --open_buffers_;
}

Status DeviceState::record(RecordedPass& pass) {
  ONEPASS_TRY(lost_status());
  Result<std::unique_ptr<Recorded>> recorded = backend_->record(pass.recording, pass.order);
  if (!recorded) {
    note_error(recorded.error());
    return std::move(recorded).error();
  }
  pass.recorded = std::move(*recorded);
  pass.dispatches = count_dispatches(pass.recording);
  return {};
}

Result<Submission> DeviceState::submit(const std::shared_ptr<RecordedPass>& pass,
                                       std::span<const std::byte> step_bytes,
                                       std::string_view label, bool from_open) {
  return guarded([&]() -> Result<Submission> {
    std::shared_ptr<DeviceState> self = shared_from_this();
    const std::lock_guard lock(submit_mutex_);
    ONEPASS_TRY(lost_status());
    if (!from_open) {
      ONEPASS_TRY(make_room_locked());
      counters.command_buffers.fetch_add(1, std::memory_order_relaxed);
    } else {
      retire_locked();
    }
    if (submission_free_.empty()) {
      submission_free_.reserve(submission_storage_.size() + 1);
      submission_storage_.reserve(submission_storage_.size() + 1);
      submission_storage_.push_back(std::make_unique<SubmissionState>());
      submission_free_.push_back(submission_storage_.back().get());
    }
    SubmissionState* s = submission_free_.back();
    s->label.assign(label);
    s->completion.done.store(false, std::memory_order_relaxed);
    s->completion.failed.store(false, std::memory_order_relaxed);
    s->completion.text[0] = '\0';
    s->completion.span = {};
    s->waited.store(false, std::memory_order_relaxed);
    s->sampled = false;
    s->samples = s->dropped = 0;
    s->serial = last_submitted_ + 1;
    if (pass->recording.timed && pass->last_serial > last_retired_) {
      // The spans of the submission still running would be overwritten: its samples are lost.
      SubmissionState* f = in_flight_[pass->last_serial];
      if (!f->sampled) {
        f->sampled = true;
        f->dropped = pass->dispatches;
        const std::lock_guard log_lock(log_mutex_);
        samples_dropped_ += pass->dispatches;
      }
    }
    // Buffers freed from here on wait for this submission.
    last_submitted_atomic_.store(s->serial, std::memory_order_seq_cst);
    ONEPASS_TRY(check_required_locked(*pass));
    if (Status status = backend_->submit(*pass->recorded, step_bytes, s->completion); !status) {
      note_error(status.error());
      return std::move(status).error();
    }
    submission_free_.pop_back();
    last_submitted_ = s->serial;
    pass->last_serial = s->serial;
    s->pass = pass;
    s->refs.store(2, std::memory_order_relaxed);  // the queue's and the handle's
    if (from_open) --open_buffers_;
    in_flight_[s->serial] = s;
    return Submission(std::move(self), s);
  });
}

// After last_submitted_atomic_ was raised: a buffer that is live now is freed only after this
// submission. Costs one comparison unless something was freed since the last time.
Status DeviceState::check_required_locked(RecordedPass& pass) {
  const std::uint64_t epoch = free_epoch_.load(std::memory_order_seq_cst);
  if (pass.checked && pass.checked_epoch == epoch) return {};
  for (const BufferId id : pass.required) {
    if (!is_live(id)) {
      return fail(ErrorCode::stale, "run: buffer " + std::to_string(id.index) + " of plan '" +
                                        pass.label + "' was freed");
    }
  }
  pass.checked = true;
  pass.checked_epoch = epoch;
  return {};
}

void DeviceState::retire_locked() noexcept {
  while (!is_idle_locked()) {
    SubmissionState* s = oldest_locked();
    if (!backend_->poll(s->completion)) break;
    if (s->completion.failed && s->completion.code == ErrorCode::device_lost) lost_ = true;
    sample_locked(*s);
#ifndef NDEBUG
    for (const BufferId id : s->pass->watched) {
      if (!is_live(id)) log("retain", "a buffer was freed before the pass that uses it completed");
    }
#endif
    ++last_retired_;
    s->pass.reset();
    unref_locked(s);
  }
  collect_free(is_idle_locked() ? ~std::uint64_t{0} : last_retired_);
}

void DeviceState::unref_locked(SubmissionState* s) noexcept {
  if (s->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (s->completion.failed.load(std::memory_order_relaxed) &&
      !s->waited.load(std::memory_order_relaxed)) {
    try {
      Error e = completion_error(*s);
      log("submission", e.to_string());
      const std::lock_guard lock(log_mutex_);
      errors_.push_back(std::move(e));
    } catch (const std::bad_alloc&) {
      log("submission", "a failed submission could not be reported: out of memory");
    }
  }
  submission_free_.push_back(s);  // capacity covers every state there is
}

void DeviceState::drop(SubmissionState* s) noexcept {
  const std::lock_guard lock(submit_mutex_);
  unref_locked(s);
}

Status DeviceState::wait(SubmissionState& s, bool count) {
  return guarded([&]() -> Status {
    const bool first = !s.waited.exchange(true, std::memory_order_acq_rel);
    if (count && first) counters.syncs.fetch_add(1, std::memory_order_relaxed);
    if (!s.completion.done.load(std::memory_order_acquire)) backend_->wait(s.completion);
    {
      const std::lock_guard lock(submit_mutex_);
      retire_locked();
    }
    if (s.completion.failed.load(std::memory_order_acquire)) return completion_error(s);
    return {};
  });
}

bool DeviceState::is_done(SubmissionState& s) { return backend_->poll(s.completion); }

Status DeviceState::fence(bool count) {
  if (count) counters.syncs.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(submit_mutex_);
  wait_for_newest(lock);
  return lost_status();
}

void DeviceState::wait_for_newest(std::unique_lock<std::mutex>& lock) {
  retire_locked();
  if (is_idle_locked()) return;
  SubmissionState* const newest = in_flight_[last_submitted_];
  newest->refs.fetch_add(1, std::memory_order_relaxed);
  lock.unlock();
  backend_->wait(newest->completion);
  lock.lock();
  retire_locked();
  unref_locked(newest);
}

void DeviceState::sample_locked(SubmissionState& s) noexcept {
  if (s.sampled || options_.profile == Profile::none || s.completion.failed) return;
  s.sampled = true;
  try {
    const RecordedPass& pass = *s.pass;
    std::vector<TimeSpan> spans;
    std::vector<WorkSlice> slices;
    if (pass.recording.timed) {
      spans.resize(pass.recording.launches.size());
      if (!backend_->timestamps(*pass.recorded, spans)) spans.clear();
      if (!spans.empty()) backend_->append_slices(*pass.recorded, slices);
    }
    const std::lock_guard lock(log_mutex_);
    const std::uint64_t ns = s.completion.span.end_ns - s.completion.span.start_ns;
    LabelTimes& t = label_times_[s.label];
    t.label = s.label;
    t.min_ns = t.count == 0 ? ns : std::min(t.min_ns, ns);
    t.max_ns = std::max(t.max_ns, ns);
    t.total_ns += ns;
    ++t.count;
    if (options_.profile != Profile::dispatches) return;
    if (spans.empty()) {
      samples_dropped_ += s.dropped = pass.dispatches;
      return;
    }
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const RecordedLaunch& l = pass.recording.launches[i];
      if (l.is_fence()) continue;
      samples_.push_back(DispatchSample{s.label, l.label ? l.label : kernel_text(l),
                                        l.group ? l.group : "", l.kind, l.index, spans[i].start_ns,
                                        spans[i].end_ns, l.launch.bytes_moved, s.serial});
      ++s.samples;
    }
    for (const WorkSlice& slice : slices) {
      const RecordedLaunch& l = pass.recording.launches[slice.launch];
      if (l.is_fence()) continue;
      slices_.push_back(WorkerSlice{s.label, s.serial, l.index, slice.worker, slice.span.start_ns,
                                    slice.span.end_ns});
    }
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(log_mutex_);
    samples_dropped_ += s.dropped = s.pass->dispatches - s.samples;
  }
}

ProfileReport DeviceState::profile() {
  {
    const std::lock_guard lock(submit_mutex_);
    retire_locked();
  }
  const std::lock_guard lock(log_mutex_);
  ProfileReport report;
  report.dropped = samples_dropped_;
  report.slices = slices_;
  for (const auto& [label, times] : label_times_) report.submissions.push_back(times);
  std::map<std::string, LabelTimes> by_name;
  std::vector<std::string> labels;
  for (const DispatchSample& s : samples_) {
    const std::uint64_t ns = s.end_ns - s.start_ns;
    LabelTimes& t = by_name[s.name];
    t.label = s.name;
    t.min_ns = t.count == 0 ? ns : std::min(t.min_ns, ns);
    t.max_ns = std::max(t.max_ns, ns);
    t.total_ns += ns;
    ++t.count;
    if (std::find(labels.begin(), labels.end(), s.label) == labels.end()) labels.push_back(s.label);
  }
  for (const auto& [n, times] : by_name) report.dispatches.push_back(times);
  for (const std::string& label : labels) {
    for (const DispatchSample& s : samples_) {
      if (s.label == label) report.samples.push_back(s);
    }
  }
  const auto larger = [](const LabelTimes& a, const LabelTimes& b) {
    return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : a.label < b.label;
  };
  std::sort(report.submissions.begin(), report.submissions.end(), larger);
  std::sort(report.dispatches.begin(), report.dispatches.end(), larger);
  return report;
}

void DeviceState::reset_profile() {
  const std::lock_guard lock(log_mutex_);
  samples_.clear();
  slices_.clear();
  label_times_.clear();
  samples_dropped_ = 0;
}

std::vector<Error> DeviceState::take_errors() {
  {
    const std::lock_guard lock(submit_mutex_);
    retire_locked();
  }
  const std::lock_guard lock(log_mutex_);
  return std::exchange(errors_, {});
}

void tell(const DeviceOptions& options, std::string_view category, std::string_view text) noexcept {
  if (!options.log) return;
  try {
    options.log(category, text);
  } catch (...) {
    // A caller's callback may throw; the library has nobody to tell.
  }
}

void DeviceState::log(std::string_view category, std::string_view text) noexcept {
  tell(options_, category, text);
}

Submission::Submission(std::shared_ptr<DeviceState> device, SubmissionState* state) noexcept
    : device_(std::move(device)), state_(state) {}

Submission::Submission(const Submission& other) noexcept
    : device_(other.device_), state_(other.state_) {
  if (state_) state_->refs.fetch_add(1, std::memory_order_relaxed);
}

Submission::Submission(Submission&& other) noexcept
    : device_(std::move(other.device_)), state_(std::exchange(other.state_, nullptr)) {}

Submission& Submission::operator=(Submission other) noexcept {
  std::swap(device_, other.device_);
  std::swap(state_, other.state_);
  return *this;
}

Submission::~Submission() {
  if (state_) device_->drop(state_);
}

Status Submission::wait() const try {
  if (!state_) return fail(ErrorCode::invalid_state, "wait: nothing was submitted");
  return device_->wait(*state_, true);
} catch (const std::bad_alloc&) {
  return host_out_of_memory();
}

Status Submission::wait_uncounted() const { return device_->wait(*state_, false); }

Status Submission::read(const View& view, std::span<std::byte> bytes) const try {
  if (!state_) return fail(ErrorCode::invalid_state, "read: nothing was submitted");
  return device_->read_after(*state_, view, bytes);
} catch (const std::bad_alloc&) {
  return host_out_of_memory();
}

bool Submission::is_done() const { return state_ && device_->is_done(*state_); }

Result<GpuSpan> Submission::gpu_span() const {
  ONEPASS_TRY(wait());
  return GpuSpan{state_->completion.span.start_ns, state_->completion.span.end_ns};
}

Result<std::uint64_t> Submission::gpu_time_ns() const {
  ONEPASS_ASSIGN(const GpuSpan span, gpu_span());
  return span.end_ns > span.start_ns ? span.end_ns - span.start_ns : 0;
}

void* Submission::native_handle() const noexcept {
  return state_ ? device_->backend().native_submission(state_->completion) : nullptr;
}

std::string Submission::label() const try {
  return state_ ? state_->label : std::string();
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace onepass
