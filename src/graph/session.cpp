#include "onepass/session.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <future>
#include <system_error>

#include "core/guarded.h"
#include "graph/ancestor/tracker.h"
#include "graph/compile.h"
#include "graph/plan_state.h"
#include "graph/session_state.h"

namespace onepass {
namespace {

std::uint64_t ns_between(std::chrono::steady_clock::time_point a,
                         std::chrono::steady_clock::time_point b) {
  const auto ns = std::chrono::nanoseconds(b - a).count();
  return ns > 0 ? static_cast<std::uint64_t>(ns) : 0;
}

// Short enough for the small-string buffer: making it allocates nothing.
Error ended_error() { return make_error(ErrorCode::invalid_state, "session ended"); }

// Ends the session however finish or compile return.
class Ending {
 public:
  explicit Ending(SessionState& s) noexcept : session_(s) {}
  ~Ending() { session_.end(); }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  SessionState& session_;
};

}  // namespace

std::unique_ptr<NodeList> ExecutorState::take_list() {
  {
    const std::lock_guard lock(mutex);
    if (!spare.empty()) {
      std::unique_ptr<NodeList> list = std::move(spare.back());
      spare.pop_back();
      return list;
    }
    spare.reserve(4);
  }
  return std::make_unique<NodeList>(device);
}

void ExecutorState::return_list(std::unique_ptr<NodeList> list) noexcept {
  if (!list) return;
  list->clear();
  const std::lock_guard lock(mutex);
  if (spare.size() < spare.capacity()) spare.push_back(std::move(list));
}

SessionState::~SessionState() {
  EncoderState* s = encoder.live_state();
  if (s != nullptr && s->capture) executor->return_list(std::move(s->capture));
}

SessionState::SessionState(std::shared_ptr<ExecutorState> e, bool recorded)
    : executor(std::move(e)),
      encoder(Device(executor->device)),
      recording(recorded),
      scratch(ScratchTable::create(executor->labels)) {
  if (EncoderState* s = encoder.live_state(); s != nullptr) {
    s->scratch = scratch;
    if (recorded) s->capture = executor->take_list();
  }
}

void SessionState::end() noexcept {
  ended = true;
  scratch.reset();
  discarded.clear();
  EncoderState* const e = encoder.live_state();
  if (e == nullptr) return;
  executor->return_list(std::move(e->capture));
  e->end(ended_error());
}

void SessionState::close_group() noexcept {
  if (in_group == 0) return;
  ++bins[std::min<std::uint32_t>(in_group, 8) - 1];
  ++groups;
  in_group = 0;
}

bool SessionState::to_ranges(std::span<const View> views, bool write,
                             std::vector<graph::Range>& out, std::vector<MemRange>& as_given) {
  for (const View& v : views) as_given.push_back(MemRange::of(v));
  Status ok = graph::append_ranges(*executor->device, views, write, out);
  if (!ok) encoder.live_state()->fail(std::move(ok).error());
  return ok.has_value();
}

GraphSession::GraphSession(Device device, std::unique_ptr<SessionState> state) noexcept
    : device_(std::move(device)), state_(std::move(state)) {}
GraphSession::GraphSession(GraphSession&&) noexcept = default;
GraphSession& GraphSession::operator=(GraphSession&&) noexcept = default;
GraphSession::~GraphSession() = default;

EncoderState* GraphSession::encoder_state() const noexcept {
  return state_ && !state_->ended ? state_->encoder.live_state() : nullptr;
}

Status GraphSession::status() const {
  if (!state_) return host_out_of_memory();
  return guarded([&]() -> Status {
    if (state_->ended) return ended_error();
    return state_->encoder.status();
  });
}

bool GraphSession::is_recording() const { return state_ && state_->encoder.is_capturing(); }
CommandEncoder& GraphSession::encoder() {
  static thread_local CommandEncoder none;  // does nothing and says so
  return state_ ? state_->encoder : none;
}

void GraphSession::encode(const Dispatch& dispatch) {
  EncoderState* e = encoder_state();
  if (const Entered in(e); in) {
    e->label = state_->label;
    e->group = state_->groups_open.empty() ? nullptr : state_->groups_open.back();
    e->encode(dispatch);
  }
}

void GraphSession::fail(Error error) {
  EncoderState* e = encoder_state();
  if (const Entered in(e); in) e->fail(std::move(error));
}

Tensor GraphSession::scratch(Format format, Shape shape) {
  EncoderState* e = encoder_state();
  const Entered in(e);
  if (!in) return {};
  try {
    const auto bytes = storage_bytes(format, shape);
    if (!bytes || *bytes == 0 || shape.rank > 4 || *bytes > (std::uint64_t{1} << 48)) {
      e->fail(make_error(ErrorCode::invalid_argument, std::string("scratch: no tensor of ") +
                                                          std::to_string(shape.elements()) +
                                                          " elements of " + name(format)));
      return {};
    }
    auto& items = state_->scratch->items;
    if (items.size() >= scratch_bit - 1) {
      e->fail(make_error(ErrorCode::limit, "scratch: too many tensors"));
      return {};
    }
    items.push_back({*bytes, nullptr, 0});
    const BufferId id{scratch_bit | static_cast<std::uint32_t>(items.size() - 1),
                      state_->scratch->tag};
    return tensor(View{id, 0, *bytes}, format, shape);
  } catch (const std::bad_alloc&) {
    e->fail(host_out_of_memory());
    return {};
  }
}

void GraphSession::discard(const View& view) {
  EncoderState* e = encoder_state();
  const Entered in(e);
  if (!in) return;
  try {
    state_->discarded.push_back(MemRange::of(view));
  } catch (const std::bad_alloc&) {
    e->fail(host_out_of_memory());
  }
}

const char* GraphSession::intern(std::string_view label) {
  if (!state_) return nullptr;
  try {
    const std::lock_guard lock(state_->executor->mutex);
    auto& labels = *state_->executor->labels;
    const auto it = labels.find(label);
    return (it != labels.end() ? it : labels.emplace(label).first)->c_str();
  } catch (const std::bad_alloc&) {
    return nullptr;  // an unlabelled dispatch is the lesser loss
  }
}

void GraphSession::set_label(std::string_view label) {
  if (state_) state_->label = label.empty() ? nullptr : intern(label);
}

void GraphSession::begin_group(std::string_view name) {
  EncoderState* e = encoder_state();
  const Entered in(e);
  if (!in) return;
  try {
    if (name.empty() || name.find('/') != std::string_view::npos) {
      return e->fail(make_error(ErrorCode::invalid_argument, "begin_group: '" + std::string(name) +
                                                                 "', expected a name without '/'"));
    }
    auto& open = state_->groups_open;
    const char* outer = open.empty() ? nullptr : open.back();
    open.reserve(open.size() + 1);
    open.push_back(
        intern(outer ? std::string(outer) + "/" + std::string(name) : std::string(name)));
  } catch (const std::bad_alloc&) {
    e->fail(host_out_of_memory());
  }
}

void GraphSession::end_group() {
  EncoderState* e = encoder_state();
  const Entered in(e);
  if (!in) return;
  if (state_->groups_open.empty()) {
    return e->fail(make_error(ErrorCode::invalid_state, "end_group: no group is open"));
  }
  state_->groups_open.pop_back();
}

void GraphSession::barrier() {
  EncoderState* e = encoder_state();
  const Entered in(e);
  if (!in) return;
  state_->close_group();
  state_->tracker.reset();
  ++state_->barriers;
  e->fence();
}

void GraphSession::barrier_between(std::span<const View> reads, std::span<const View> writes) {
  EncoderState* e = encoder_state();
  const Entered in(e);
  if (!in) return;
  const bool timed = e->device->options().profile != Profile::none;
  const auto begin =
      timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  try {
    std::vector<graph::Range> ranges;
    std::vector<MemRange> r, w;
    if (!state_->to_ranges(reads, false, ranges, r) ||
        !state_->to_ranges(writes, true, ranges, w)) {
      return;
    }
    e->set_pending(r, w);
    if (state_->tracker.conflicts(ranges)) {
      state_->close_group();
      state_->tracker.reset();
      ++state_->barriers;
      // A direct encoder with automatic barriers places its own where the ranges demand it.
      if (e->capture || !e->automatic()) e->memory_barrier();
    }
    ++state_->in_group;
    ++state_->checked;
    state_->tracker.add(ranges);
  } catch (const std::bad_alloc&) {
    e->fail(host_out_of_memory());
  }
  if (timed) state_->tracker_ns += ns_between(begin, std::chrono::steady_clock::now());
}

void GraphSession::track_dispatch(std::span<const View> reads, std::span<const View> writes) {
  EncoderState* e = encoder_state();
  const Entered in(e);
  if (!in) return;
  try {
    std::vector<graph::Range> ranges;
    std::vector<MemRange> r, w;
    if (!state_->to_ranges(reads, false, ranges, r) ||
        !state_->to_ranges(writes, true, ranges, w)) {
      return;
    }
    e->annotate_last(r, w);
    state_->tracker.add(ranges);
  } catch (const std::bad_alloc&) {
    e->fail(host_out_of_memory());
  }
}

std::uint32_t GraphSession::barrier_count() const { return state_ ? state_->barriers : 0; }
std::uint64_t GraphSession::tracker_overhead_ns() const { return state_ ? state_->tracker_ns : 0; }

GroupStats GraphSession::group_stats() const {
  GroupStats g;
  if (!state_) return g;
  g.dispatches = state_->checked;
  g.barriers = state_->barriers;
  g.groups = state_->groups;
  g.bins = state_->bins;
  if (state_->in_group > 0) {
    ++g.groups;
    ++g.bins[std::min<std::uint32_t>(state_->in_group, 8) - 1];
  }
  g.ratio = g.groups == 0 ? 0.0 : static_cast<double>(g.dispatches) / g.groups;
  return g;
}

std::string GroupStats::to_string() const try {
  char text[160];
  std::snprintf(text, sizeof text, "dispatches %u, barriers %u, groups %u, ratio %.2f", dispatches,
                barriers, groups, ratio);
  std::string out = text;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (bins[i] == 0) continue;
    std::snprintf(text, sizeof text, "%s %zu%s: %u",
                  out.find("bins") == std::string::npos ? ", bins" : ",", i + 1, i == 7 ? "+" : "",
                  bins[i]);
    out += text;
  }
  return out;
} catch (const std::bad_alloc&) {
  return {};
}

namespace {

using Clock = std::chrono::steady_clock;

// Submissions of one finish.
struct Submitted {
  Submission first, second;
  Clock::time_point at{};  // just before the first

  // One wait, whether the pass was cut in two or not.
  Status wait(Status (Submission::*uncounted)() const) const {
    Status a = second ? (first.*uncounted)() : first.wait();
    Status b = second ? second.wait() : Status{};
    if (a || b) return a ? b : a;
    Error both = std::move(a).error();
    both.message += "; and " + b.error().message;
    return both;
  }
};

// A command buffer of the device; given back unless it was submitted.
class OpenBuffer {
 public:
  explicit OpenBuffer(DeviceState& device) noexcept : device_(&device) {}
  ~OpenBuffer() {
    if (open_) device_->close_command_buffer();
  }
  OpenBuffer(const OpenBuffer&) = delete;
  OpenBuffer& operator=(const OpenBuffer&) = delete;
  Status open() {
    ONEPASS_TRY(device_->open_command_buffer());
    open_ = true;
    return {};
  }
  void was_submitted() noexcept { open_ = false; }

 private:
  DeviceState* device_;
  bool open_ = false;
};

void add_part(const graph::Part& part, std::size_t index, FinishReport& report,
              DeviceState& device) {
  ++report.submissions;
  report.barriers[index] = part.barriers();
  report.record_ns += index == 0 ? part.record_ns + part.validate_ns : 0;
  for (std::size_t i = 0; i < 8; ++i) report.group_sizes[i] += part.group_sizes[i];
  device.counters.barriers.fetch_add(part.barriers(), std::memory_order_relaxed);
  device.counters.replayed_dispatches.fetch_add(part.pass->dispatches, std::memory_order_relaxed);
}

// The second part, made by another thread or when it is asked for.
class SecondPart {
 public:
  SecondPart(const graph::Compilation& c, std::uint32_t begin, bool on_worker)
      : make_([&c, begin] { return guarded([&] { return c.part(begin, c.size()); }); }) {
    if (!on_worker) return;
    try {
      made_ = std::async(std::launch::async, make_);
    } catch (const std::system_error&) {
      // No thread: it is made later, by this one.
    }
  }
  Result<graph::Part> get() { return made_.valid() ? made_.get() : make_(); }

 private:
  std::function<Result<graph::Part>()> make_;
  std::future<Result<graph::Part>> made_;
};

// Both parts, the second while the first runs. Whatever happens to the second, the first one is
// waited for.
Status submit_both(const graph::Compilation& c, std::uint32_t split, const FinishOptions& options,
                   FinishReport& report, Submitted& submitted) {
  DeviceState& device = c.list().device();
  OpenBuffer first_buffer(device), second_buffer(device);
  ONEPASS_TRY(first_buffer.open());
  ONEPASS_TRY(second_buffer.open());  // before anything runs, so that a failure runs nothing
  ONEPASS_ASSIGN(graph::Part first, c.part(0, split));
  SecondPart making(c, split, options.encode_on_worker);
  submitted.at = Clock::now();
  // The buffers stay the list's until the second part, which ends last, takes them over.
  ONEPASS_ASSIGN(submitted.first, device.submit(first.pass, {}, options.label, true));
  first_buffer.was_submitted();
  add_part(first, 0, report, device);
  const Clock::time_point begin = Clock::now();
  const Status rest = [&]() -> Status {
    ONEPASS_ASSIGN(graph::Part second, making.get());
    report.overlap_ns = second.record_ns + second.validate_ns;
    ONEPASS_ASSIGN(submitted.second, graph::submit_once(second, c.list(), options.label));
    second_buffer.was_submitted();
    add_part(second, 1, report, device);
    return {};
  }();
  if (!options.encode_on_worker) report.overlap_ns = ns_between(begin, Clock::now());
  if (rest) return {};
  const Status earlier = submitted.first.wait();
  Error e = rest.error();
  if (!earlier) e.message += "; and " + earlier.error().message;
  return e;
}

// Compiles the recorded list and runs it once.
Status run_once(NodeList& list, const FinishOptions& options, FinishReport& report,
                Submitted& submitted) {
  DeviceState& device = list.device();
  const bool automatic = device.options().barriers == Barriers::automatic;
  const bool recompute = options.barriers == BarrierSource::recomputed;
  report.unannotated = static_cast<std::uint32_t>(list.unannotated_count());
  ONEPASS_ASSIGN(
      const graph::Compilation c,
      graph::Compilation::of(list, {.fuse = options.fuse,
                                    .close_fusions = options.close_fusions,
                                    .policy = options.reorder ? options.policy : Policy::recorded,
                                    .recompute = recompute,
                                    .check = automatic,
                                    .validate = automatic}));
  report.fused = c.fused();
  report.fuse_ns = c.fuse_ns;
  report.reorder_ns = c.lower_ns + c.order_ns;
  report.record_ns = c.memory_ns;
  report.moved = c.moved();
  report.dispatches = static_cast<std::uint32_t>(c.list().dispatch_count());
  std::uint32_t split = c.size();
  if (options.command_buffers == 2) {
    const std::uint64_t share = std::uint64_t{report.dispatches} * options.first_percent / 100;
    split = c.behind(std::max<std::uint64_t>(options.first_min, share));
  }
  if (split < c.size()) return submit_both(c, split, options, report, submitted);
  OpenBuffer buffer(device);
  ONEPASS_TRY(buffer.open());
  ONEPASS_ASSIGN(graph::Part part, c.part(0, split));
  submitted.at = Clock::now();
  ONEPASS_ASSIGN(submitted.first, graph::submit_once(part, c.list(), options.label));
  buffer.was_submitted();
  add_part(part, 0, report, device);
  return {};
}

}  // namespace

Result<FinishReport> GraphSession::finish(const FinishOptions& options) {
  if (!state_) return host_out_of_memory();
  return guarded([&]() -> Result<FinishReport> {
    if (state_->ended) return ended_error();
    const Ending ending(*state_);
    return finish_session(*state_, options);
  });
}

Result<FinishReport> GraphSession::finish_session(SessionState& session,
                                                  const FinishOptions& options) {
  FinishReport report;
  CommandEncoder& encoder = session.encoder;
  ONEPASS_TRY(encoder.status());
  if (options.command_buffers < 1 || options.command_buffers > 2) {
    return onepass::fail(
        ErrorCode::invalid_argument,
        "finish: " + std::to_string(options.command_buffers) + " command buffers, expected 1 or 2");
  }
  const Clock::time_point begin =
      options.begin == Clock::time_point{} ? session.begin : options.begin;
  std::optional<ComputeGraph> graph = encoder.take_capture();
  Submitted submitted;
  // The list's storage goes back to the executor, whatever happens.
  struct Return {
    ExecutorState& executor;
    std::optional<ComputeGraph>& graph;
    ~Return() {
      if (graph) executor.return_list(graph->take_list());
    }
  } const give_back{*session.executor, graph};
  if (graph && !graph->is_empty()) {
    for (const MemRange& d : session.discarded) graph->list().discard(d);
    ONEPASS_TRY(run_once(graph->list(), options, report, submitted));
  } else {
    submitted.at = Clock::now();
    ONEPASS_ASSIGN(submitted.first, encoder.commit(options.label));
    report.submissions = 1;
    const EncoderState& s = *encoder.live_state();
    if (graph) report.barriers[0] = s.committed_barriers;
    report.group_sizes = s.committed_groups;
  }
  report.submission = submitted.second ? submitted.second : submitted.first;
  if (begin < submitted.at) report.encode_ns = ns_between(begin, submitted.at);
  if (options.wait) {
    ONEPASS_TRY(submitted.wait(&Submission::wait_uncounted));
    report.wait_ns = ns_between(submitted.at, Clock::now());
    for (const Submission* s : {&submitted.first, &submitted.second}) {
      if (*s) {
        ONEPASS_ASSIGN(const std::uint64_t ns, s->gpu_time_ns());
        report.gpu_ns += ns;
        report.samples += s->state_->samples;
        report.samples_dropped += s->state_->dropped;
      }
    }
  }
  return report;
}

Result<Plan> GraphSession::compile(const PlanOptions& options) {
  if (!state_) return host_out_of_memory();
  return guarded([&]() -> Result<Plan> {
    if (state_->ended) return ended_error();
    const Ending ending(*state_);
    SessionState* const session = state_.get();
    ONEPASS_TRY(session->encoder.status());
    std::optional<ComputeGraph> graph = session->encoder.take_capture();
    if (!graph) {
      return onepass::fail(ErrorCode::invalid_state, "compile: the session is not recorded");
    }
    for (const MemRange& d : session->discarded) graph->list().discard(d);
    std::unique_ptr<NodeList> list = graph->take_list();
    Result<std::shared_ptr<PlanState>> plan = [&] {
      const std::lock_guard lock(session->executor->arena_mutex);
      return PlanState::compile(*list, options, session->executor->arena);
    }();
    session->executor->return_list(std::move(list));
    if (!plan) return std::move(plan).error();
    return Plan(std::move(*plan));
  });
}

Result<Submission> GraphSession::commit(std::string_view label) {
  FinishOptions options;
  options.fuse = options.reorder = options.wait = false;
  options.barriers = BarrierSource::recorded;
  options.label = label;
  ONEPASS_ASSIGN(FinishReport report, finish(options));
  return std::move(report.submission);
}

GraphExecutor::GraphExecutor(Device device) : device_(std::move(device)) {
  try {
    state_ = std::make_shared<ExecutorState>(device_.state().shared_from_this());
  } catch (const std::bad_alloc&) {
    // begin() gives sessions that say so.
  }
}

namespace {

std::unique_ptr<SessionState> make_session(const std::shared_ptr<ExecutorState>& executor,
                                           bool recorded) {
  if (!executor) return nullptr;
  try {
    return std::make_unique<SessionState>(executor, recorded);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

GraphSession GraphExecutor::begin() const {
  return GraphSession(device_, make_session(state_, false));
}
GraphSession GraphExecutor::begin_recorded() const {
  return GraphSession(device_, make_session(state_, true));
}

}  // namespace onepass
