#include "dispatch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/subject.h"
#include "common/terminal.h"
#include "core/os.h"
#include "profile/profile.h"

namespace onepass::tool {
namespace {

template <class E, std::size_t N>
E value_of(const std::string& name, const char* const (&names)[N]) {
  return static_cast<E>(std::find(names, names + N, name) - names);
}

// Runs one token after the other in one way.
class TokenRunner {
 public:
  static Result<TokenRunner> create(const llm::Decoder& decoder, const DispatchWay& way);

  const DispatchWay& way() const noexcept { return way_; }
  const Plan& plan() const noexcept { return plan_; }
  // The token of the next run.
  Status start(std::uint32_t token, std::uint32_t position) const;
  Status run();

 private:
  TokenRunner(const llm::Decoder& decoder, const DispatchWay& way)
      : decoder_(&decoder), way_(way), executor_(decoder.model().device()) {}
  Status run_ops();
  FinishOptions finish_options() const;

  const llm::Decoder* decoder_;
  DispatchWay way_;
  GraphExecutor executor_;
  StepState step_;
  Plan plan_;                         // of mode plan
  std::optional<GraphSession> open_;  // of mode per_op: holds the scratch of its ops
  std::vector<CapturedNode> ops_;
};

Result<TokenRunner> TokenRunner::create(const llm::Decoder& decoder, const DispatchWay& way) {
  TokenRunner r(decoder, way);
  ONEPASS_ASSIGN(r.step_, StepState::create(decoder.model().device(), 1, 1));
  if (way.mode != DispatchMode::per_op && way.mode != DispatchMode::plan) return r;
  GraphSession s = r.executor_.begin_recorded();
  decoder.record_token(s, r.step_.view());
  if (way.mode == DispatchMode::plan) {
    PlanOptions options;
    options.step = &r.step_;
    options.fuse = way.fuse != FuseLevel::off;
    options.close_fusions = way.fuse == FuseLevel::all;
    options.policy = way.policy;
    ONEPASS_ASSIGN(r.plan_, s.compile(options));
    return r;
  }
  ONEPASS_TRY(s.status());
  if (std::optional<ComputeGraph> graph = s.encoder().take_capture()) {
    r.ops_ = std::move(*graph).into_nodes();
  }
  r.open_ = std::move(s);
  return r;
}

Status TokenRunner::start(std::uint32_t token, std::uint32_t position) const {
  std::vector<std::byte> bytes(step_.view().bytes);
  ONEPASS_TRY(step_.serialize(SingleStep(token, position).values(), bytes));
  return decoder_->model().device().write(step_.view(), bytes);
}

Status TokenRunner::run_ops() {
  CommandEncoder& encoder = open_->encoder();
  for (const CapturedNode& op : ops_) {
    if (op.kind != CapturedNode::Kind::dispatch) continue;
    encoder.encode(op.dispatch);
    ONEPASS_TRY(encoder.commit_and_wait());
  }
  return {};
}

FinishOptions TokenRunner::finish_options() const {
  FinishOptions options;
  options.fuse = way_.fuse != FuseLevel::off;
  options.close_fusions = way_.fuse == FuseLevel::all;
  options.policy = way_.policy;
  if (way_.mode == DispatchMode::two_buffers) {
    options.command_buffers = 2;
    options.first_min = 1;
  }
  return options;
}

Status TokenRunner::run() {
  if (interrupted()) return fail(ErrorCode::cancelled, "bench: interrupted");
  if (way_.mode == DispatchMode::plan) return plan_.run();
  if (way_.mode == DispatchMode::per_op) return run_ops();
  GraphSession s =
      way_.mode == DispatchMode::session ? executor_.begin() : executor_.begin_recorded();
  decoder_->record_token(s, step_.view());
  ONEPASS_TRY(s.finish(finish_options()));
  return {};
}

struct Runners {
  std::vector<TokenRunner> all;
  std::uint32_t first_token = 0;
};

// The decoder with the tokens before the test, and every way once run.
Result<Runners> prepare(llm::Decoder& decoder, const std::vector<DispatchWay>& ways,
                        const DispatchTest& test) {
  const std::vector<std::uint32_t> ids =
      random_tokens(std::size_t{test.depth} + 1, decoder.model().config().vocab);
  ONEPASS_TRY(decoder.truncate(0));
  ONEPASS_TRY(decoder.append(std::span(ids).first(test.depth), &interrupt_flag()));
  Runners runners;
  runners.first_token = ids.back();
  for (const DispatchWay& way : ways) {
    ONEPASS_ASSIGN(TokenRunner runner, TokenRunner::create(decoder, way));
    ONEPASS_TRY(runner.start(runners.first_token, test.depth));
    ONEPASS_TRY(runner.run());
    runners.all.push_back(std::move(runner));
  }
  return runners;
}

Result<double> run_ns(TokenRunner& runner, std::uint32_t first_token, const DispatchTest& test) {
  ONEPASS_TRY(runner.start(first_token, test.depth));
  const std::uint64_t begin = os::now_ns();
  for (std::uint32_t i = 0; i < test.tokens; ++i) ONEPASS_TRY(runner.run());
  return static_cast<double>(std::max<std::uint64_t>(os::now_ns() - begin, 1));
}

Status count_one(TokenRunner& runner, std::uint32_t first_token, std::uint32_t position,
                 const Device& device, DispatchTimes& out) {
  ONEPASS_TRY(runner.start(first_token, position));
  device.reset_counters();
  ONEPASS_TRY(runner.run());
  const Counters c = device.counters();
  out.submissions = static_cast<double>(c.command_buffers);
  out.waits = static_cast<double>(c.syncs);
  if (runner.plan() && runner.plan().report().order == OrderKind::edges) {
    out.edges = static_cast<double>(runner.plan().report().edges_issued);
  } else {
    out.barriers = static_cast<double>(c.barriers);
  }
  return {};
}

// Of tokens that took so many ns.
KernelShare share_of(const ProfileReport& report, const std::vector<double>& ns) {
  std::vector<DispatchSample> samples = report.samples;
  std::stable_sort(
      samples.begin(), samples.end(),
      [](const DispatchSample& a, const DispatchSample& b) { return a.pass < b.pass; });
  const std::size_t each = samples.size() / ns.size();
  if (each == 0 || samples.size() % ns.size() != 0 || report.dropped > 0) return {};
  std::vector<double> outside;
  for (std::size_t i = 0; i < ns.size(); ++i) {
    std::vector<TimeSpan> spans;
    for (const DispatchSample& s : std::span(samples).subspan(i * each, each)) {
      spans.push_back({s.start_ns, s.end_ns});
    }
    outside.push_back(std::max(ns[i] - static_cast<double>(covered_ns(std::move(spans))), 0.0));
  }
  return {median_of(ns) * 1e-3, median_of(std::move(outside)) * 1e-3, static_cast<double>(each)};
}

bool is_close(const DispatchWay& way) { return way.fuse == FuseLevel::all; }

// Fusions may change bits only between those with and those without close ones.
Status check_tokens(std::span<const DispatchWay> ways, const std::vector<DispatchTimes>& times) {
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const auto like = std::find_if(ways.begin(), ways.end(), [&](const DispatchWay& way) {
      return is_close(way) == is_close(ways[i]);
    });
    const auto first = static_cast<std::size_t>(like - ways.begin());
    if (times[i].tokens == times[first].tokens) continue;
    const auto text = [](const DispatchWay& way) {
      return std::string(way.mode_name()) + " (fuse " + std::string(way.fuse_name()) + ", policy " +
             std::string(way.policy_name()) + ")";
    };
    return fail(ErrorCode::internal, "bench: " + text(ways[i]) + " chose other tokens than " +
                                         text(ways[first]) + ", expected the same");
  }
  return {};
}

}  // namespace

std::vector<DispatchWay> dispatch_ways(const std::vector<std::string>& modes,
                                       const std::vector<std::string>& fuse,
                                       const std::vector<std::string>& policies) {
  std::vector<DispatchWay> ways;
  const auto add = [&](const DispatchWay& way) {
    if (std::find(ways.begin(), ways.end(), way) == ways.end()) ways.push_back(way);
  };
  for (const char* name : dispatch_modes) {
    const bool asked = std::any_of(modes.begin(), modes.end(), [&](const std::string& mode) {
      return mode == name || mode == "all";
    });
    if (!asked) continue;
    const auto mode = value_of<DispatchMode>(name, dispatch_modes);
    if (mode == DispatchMode::per_op || mode == DispatchMode::session) {
      add({mode, FuseLevel::off, Policy::recorded});
      continue;
    }
    for (const std::string& level : fuse) {
      for (const std::string& policy : policies) {
        add({mode, value_of<FuseLevel>(level, fuse_levels),
             value_of<Policy>(policy, order_policies)});
      }
    }
  }
  return ways;
}

Result<std::vector<DispatchTimes>> time_tokens(llm::Decoder& decoder,
                                               const std::vector<DispatchWay>& ways,
                                               const DispatchTest& test,
                                               std::uint32_t repetitions) {
  const Device& device = decoder.model().device();
  std::vector<DispatchTimes> times(ways.size());
  ONEPASS_ASSIGN(Runners runners, prepare(decoder, ways, test));
  for (std::size_t i = 0; i < ways.size(); ++i) {
    ONEPASS_TRY(count_one(runners.all[i], runners.first_token, test.depth, device, times[i]));
  }
  for (std::uint32_t r = 0; r < repetitions; ++r) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      ONEPASS_ASSIGN(const double ns, run_ns(runners.all[i], runners.first_token, test));
      times[i].ns.push_back(ns);
      times[i].tokens.resize(test.tokens);
      ONEPASS_ASSIGN(const View chosen,
                     decoder.chosen().view.sub((std::uint64_t{test.depth} + 1) * 4,
                                               std::uint64_t{test.tokens} * 4));
      ONEPASS_TRY(device.read_as<std::uint32_t>(chosen, times[i].tokens));
      ONEPASS_TRY(check_tokens({ways.data(), r == 0 ? i + 1 : ways.size()}, times));
    }
  }
  return times;
}

Result<std::vector<KernelShare>> time_kernels(llm::Decoder& decoder,
                                              const std::vector<DispatchWay>& ways,
                                              const DispatchTest& test) {
  const Device& device = decoder.model().device();
  ONEPASS_ASSIGN(Runners runners, prepare(decoder, ways, test));
  std::vector<KernelShare> shares;
  for (TokenRunner& runner : runners.all) {
    ONEPASS_TRY(runner.start(runners.first_token, test.depth));
    device.reset_profile();
    std::vector<double> ns;
    for (std::uint32_t i = 0; i < test.tokens; ++i) {
      const std::uint64_t begin = os::now_ns();
      ONEPASS_TRY(runner.run());
      ns.push_back(static_cast<double>(os::now_ns() - begin));
    }
    shares.push_back(share_of(device.profile(), ns));
  }
  device.reset_profile();
  return shares;
}

std::size_t count_other_tokens(const std::vector<DispatchWay>& ways,
                               const std::vector<DispatchTimes>& times, std::size_t of) {
  const auto exact = std::find_if_not(ways.begin(), ways.end(), is_close);
  if (exact == ways.end()) return 0;
  const auto& expected = times[static_cast<std::size_t>(exact - ways.begin())].tokens;
  std::size_t n = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) n += times[of].tokens[i] != expected[i] ? 1 : 0;
  return n;
}

}  // namespace onepass::tool
