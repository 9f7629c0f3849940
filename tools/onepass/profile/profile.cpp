#include "profile.h"

#include <algorithm>
#include <bit>
#include <map>

#include "bench/subject.h"
#include "common/terminal.h"
#include "info/model_facts.h"
#include "machine/bandwidth.h"
#include "model/weight_kernel.h"
#include "onepass/ops.h"
#include "run/decoder.h"

namespace onepass::tool {
namespace {

Status run_passes(llm::Decoder& decoder, std::span<const std::uint32_t> prompt,
                  std::uint32_t tokens) {
  ONEPASS_TRY(decoder.truncate(0));
  ONEPASS_TRY(decoder.append(prompt, &interrupt_flag()));
  for (std::uint32_t i = 0; i < tokens; ++i) {
    if (interrupted()) return fail(ErrorCode::cancelled, "interrupted while profiling");
    // With a prompt of one token, its pass is the first that decodes.
    ONEPASS_TRY(decoder.greedy());
  }
  return {};
}

// Every dispatch in the first lane that is free when it starts.
void assign_queues(ModelProfile& out, TimedPass& pass) {
  std::vector<std::uint32_t> order(pass.n_samples);
  for (std::uint32_t i = 0; i < pass.n_samples; ++i) order[i] = pass.first_sample + i;
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return out.samples[a].start_ns < out.samples[b].start_ns;
  });
  std::vector<std::uint64_t> lane_end;
  for (const std::uint32_t i : order) {
    const DispatchSample& s = out.samples[i];
    std::size_t lane = 0;
    while (lane < lane_end.size() && lane_end[lane] > s.start_ns) ++lane;
    if (lane == lane_end.size()) lane_end.push_back(0);
    lane_end[lane] = std::max(s.start_ns, s.end_ns);
    out.slices.push_back({static_cast<std::uint32_t>(lane), i, s.start_ns, lane_end[lane]});
  }
  out.n_lanes = std::max(out.n_lanes, static_cast<std::uint32_t>(lane_end.size()));
}

void add_kernels(const ModelProfile& all, PassProfile& group) {
  std::map<std::string, KernelTimes> by_name;
  for (const std::uint32_t p : group.passes) {
    const TimedPass& pass = all.passes[p];
    group.total_ns += pass.ns();
    group.busy_ns += pass.busy_ns;
    for (std::uint32_t i = pass.first_sample; i < pass.first_sample + pass.n_samples; ++i) {
      const DispatchSample& s = all.samples[i];
      const std::uint64_t ns = s.end_ns - s.start_ns;
      KernelTimes& k = by_name[s.name];
      k.min_ns = k.count == 0 ? ns : std::min(k.min_ns, ns);
      k.max_ns = std::max(k.max_ns, ns);
      k.total_ns += ns;
      k.bytes += s.bytes_moved;
      ++k.count;
      group.bytes += s.bytes_moved;
    }
  }
  for (auto& [name, times] : by_name) {
    times.name = name;
    group.kernels.push_back(times);
  }
  std::stable_sort(
      group.kernels.begin(), group.kernels.end(),
      [](const KernelTimes& a, const KernelTimes& b) { return a.total_ns > b.total_ns; });
}

// The pass whose launches are the plan's, nearest to the median of those.
bool choose_shown(const ModelProfile& all, PassProfile& group) {
  const auto matches = [&](const TimedPass& pass) {
    std::uint32_t i = pass.first_sample;
    for (const PlanStep& step : group.steps) {
      if (step.is_fence()) continue;
      if (i == pass.first_sample + pass.n_samples) return false;
      const DispatchSample& s = all.samples[i++];
      if (s.index != step.index || s.name != (step.label.empty() ? step.kernel : step.label)) {
        return false;
      }
    }
    return i == pass.first_sample + pass.n_samples;
  };
  std::vector<std::uint32_t> fitting;
  for (const std::uint32_t p : group.passes) {
    if (matches(all.passes[p])) fitting.push_back(p);
  }
  const bool known = !fitting.empty();
  if (!known) fitting = group.passes;
  std::stable_sort(fitting.begin(), fitting.end(), [&](std::uint32_t a, std::uint32_t b) {
    return all.passes[a].ns() < all.passes[b].ns();
  });
  group.shown = fitting[fitting.size() / 2];
  return known;
}

Status add_plans(const llm::Decoder& decoder, const ProfileOptions& options,
                 const ModelProfile& all, PassProfile& group) {
  ONEPASS_ASSIGN(const Plan plan, decoder.inspect(group.rows));
  group.report = plan.report();
  group.steps = plan.steps();
  if (!choose_shown(all, group)) group.steps.clear();
  if (!options.compare_plans) return {};
  PlanOptions plan_options;
  plan_options.policy = Policy::greedy64;
  ONEPASS_ASSIGN(const Plan greedy, decoder.inspect(group.rows, plan_options));
  group.greedy = greedy.report();
  plan_options.policy = Policy::exact;
  plan_options.fuse = false;
  ONEPASS_ASSIGN(const Plan unfused, decoder.inspect(group.rows, plan_options));
  group.unfused = unfused.report();
  group.unfused_steps = unfused.steps();
  return {};
}

}  // namespace

std::uint64_t covered_ns(std::vector<TimeSpan> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.start_ns < b.start_ns; });
  std::uint64_t total = 0, end = 0;
  for (const TimeSpan& s : spans) {
    if (s.end_ns <= end) continue;
    total += s.end_ns - std::max(s.start_ns, end);
    end = s.end_ns;
  }
  return total;
}

std::string ModelProfile::lane_name(std::uint32_t lane) const {
  return (has_workers ? "worker " : "queue ") + std::to_string(lane);
}

const char* fusion_of(const std::string& kernel, const FuseReport& fused) {
  const char* best = nullptr;
  std::size_t best_length = 0;
  for (const FuseReport::Rule& rule : fused.rules) {
    const std::string_view name = rule.name;
    const bool fits =
        kernel.starts_with(name) && (kernel.size() == name.size() || kernel[name.size()] == '_');
    if (fits && name.size() > best_length) {
      best = rule.name;
      best_length = name.size();
    }
  }
  return best;
}

double copy_bandwidth(const Device& device) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  constexpr int runs = 5;
  const std::uint64_t bytes = std::min(most, device.info().memory_bytes / 16) / 4096 * 4096;
  if (bytes == 0) return 0.0;
  const auto from = device.allocate(bytes), to = device.allocate(bytes);
  if (!from || !to) return 0.0;
  const Shape shape{static_cast<std::uint32_t>(bytes / 4096), 1024};
  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  ops::copy(s, {.x = from->tensor(DType::f32, shape), .out = to->tensor(DType::f32, shape)});
  const auto plan = s.compile();
  if (!plan) return 0.0;
  std::uint64_t best = 0;
  for (int i = 0; i < runs; ++i) {
    const auto submission = plan->run_async();
    if (!submission) return 0.0;
    const auto ns = submission->gpu_time_ns();
    if (!ns) return 0.0;
    if (*ns > 0 && (best == 0 || *ns < best)) best = *ns;
  }
  return best == 0 ? 0.0 : 2.0 * static_cast<double>(bytes) * 1e9 / static_cast<double>(best);
}

void arrange(const ProfileReport& report, ModelProfile& out) {
  out.dropped = report.dropped;
  out.samples = report.samples;
  std::stable_sort(
      out.samples.begin(), out.samples.end(),
      [](const DispatchSample& a, const DispatchSample& b) { return a.pass < b.pass; });
  out.has_workers = !report.slices.empty();
  std::size_t at_slice = 0;
  for (std::uint32_t begin = 0; begin < out.samples.size();) {
    TimedPass pass;
    pass.label = out.samples[begin].label;
    pass.first_sample = begin;
    const std::uint64_t number = out.samples[begin].pass;
    std::map<std::uint32_t, std::uint32_t> by_index;
    std::vector<TimeSpan> spans;
    pass.start_ns = ~std::uint64_t{0};
    for (; begin < out.samples.size() && out.samples[begin].pass == number; ++begin) {
      DispatchSample& s = out.samples[begin];
      s.end_ns = std::max(s.end_ns, s.start_ns);
      by_index[s.index] = begin;
      spans.push_back({s.start_ns, s.end_ns});
      pass.start_ns = std::min(pass.start_ns, s.start_ns);
      pass.end_ns = std::max(pass.end_ns, s.end_ns);
    }
    pass.n_samples = begin - pass.first_sample;
    pass.busy_ns = covered_ns(std::move(spans));
    pass.first_slice = static_cast<std::uint32_t>(out.slices.size());
    if (out.has_workers) {
      while (at_slice < report.slices.size() && report.slices[at_slice].pass < number) ++at_slice;
      for (; at_slice < report.slices.size() && report.slices[at_slice].pass == number;
           ++at_slice) {
        const WorkerSlice& s = report.slices[at_slice];
        const auto sample = by_index.find(s.index);
        if (sample == by_index.end()) continue;
        out.slices.push_back({s.worker, sample->second, s.start_ns, s.end_ns});
        // A worker may begin before the one that took the first tile.
        pass.start_ns = std::min(pass.start_ns, s.start_ns);
        pass.end_ns = std::max(pass.end_ns, s.end_ns);
        out.n_lanes = std::max(out.n_lanes, s.worker + 1);
      }
    } else {
      assign_queues(out, pass);
    }
    pass.n_slices = static_cast<std::uint32_t>(out.slices.size()) - pass.first_slice;
    out.passes.push_back(std::move(pass));
  }
  for (const char* name : {"prefill", "decode"}) {
    PassProfile group;
    group.name = name;
    for (std::uint32_t p = 0; p < out.passes.size(); ++p) {
      if (out.passes[p].label == name) group.passes.push_back(p);
    }
    if (group.passes.empty()) continue;
    add_kernels(out, group);
    choose_shown(out, group);
    out.groups.push_back(std::move(group));
  }
}

Result<ModelProfile> run_profile(const llm::TextModel& opened, const std::string& path,
                                 const ProfileOptions& options) {
  const Device& device = opened.model->device();
  const DeviceInfo& info = device.info();
  const std::vector<std::uint32_t> prompt =
      random_tokens(std::size_t{options.prefill} + 1, opened.model->config().vocab);
  const std::uint64_t needed = prompt.size() + options.tokens;
  if (needed > llm::max_context || (options.context != 0 && options.context < needed)) {
    return fail(ErrorCode::limit,
                "profile: " + std::to_string(needed) + " tokens, the context has " +
                    std::to_string(options.context != 0 ? options.context : llm::max_context));
  }
  llm::DecoderOptions decoder_options;
  decoder_options.context =
      options.context != 0 ? options.context : static_cast<std::uint32_t>(needed);
  ONEPASS_ASSIGN(llm::Decoder decoder, llm::Decoder::create(opened.model, decoder_options));
  ModelProfile out;
  out.model = path;
  out.generic_kernels = llm::generic_weights(*opened.model).kernels;
  out.model_type = facts_of(*opened.model).type;
  out.device = info.name;
  out.device_description = info.description;
  out.threads = info.compute_units;
  // Warm-up: plans are recorded, memory is touched.
  ONEPASS_TRY(run_passes(decoder, prompt, std::min(options.tokens, 2u)));
  device.reset_profile();
  ONEPASS_TRY(run_passes(decoder, prompt, options.tokens));
  arrange(device.profile(), out);
  if (options.tokens == 0) {
    std::erase_if(out.groups, [](const PassProfile& g) { return g.name == "decode"; });
  }
  if (out.groups.empty()) {
    return fail(ErrorCode::unsupported, "profile: " + info.name + " reported no times");
  }
  for (PassProfile& group : out.groups) {
    if (group.name == "prefill") {
      // The first chunk is the largest.
      const std::uint32_t most = std::min(options.prefill, llm::max_chunk_rows);
      const std::uint32_t above = std::bit_ceil(most);
      group.rows = above - most < above / 4 ? above : std::bit_floor(most);
      group.tokens = options.prefill;
    } else {
      group.tokens = group.passes.size();
    }
    ONEPASS_TRY(add_plans(decoder, options, out, group));
  }
  if (options.roof > 0.0) {
    out.roof = options.roof;
    out.roof_how = "given with --roof";
  } else if (info.name == "cpu") {
    out.roof = memory_bandwidth(info.compute_units);
    for (const PassProfile& g : out.groups) {
      const double rate =
          g.total_ns == 0 ? 0.0
                          : static_cast<double>(g.bytes) * 1e9 / static_cast<double>(g.total_ns);
      out.roof = std::max(out.roof, share_of_memory(rate, info.compute_units).roof);
    }
    out.roof_how = "memory read by " + std::to_string(info.compute_units) +
                   (info.compute_units == 1 ? " thread" : " threads");
  } else if (!info.unified_memory) {
    out.roof = copy_bandwidth(device);
    out.roof_how = "a copy on the device, reads and writes";
  }
  return out;
}

}  // namespace onepass::tool
