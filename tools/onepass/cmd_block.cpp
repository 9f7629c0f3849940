#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "block.h"
#include "common.h"
#include "onepass/ops.h"
#include "print_to.h"
#include "terminal.h"

namespace onepass::tool {
namespace {

using Clock = std::chrono::steady_clock;

struct BlockArgs {
  DeviceArgs device;
  BlockShape shape;
  std::uint32_t steps = 64;
  bool json = false;
  std::string dot;
};

double median_us(std::vector<double>& us) {
  std::sort(us.begin(), us.end());
  return us.empty() ? 0.0 : us[us.size() / 2];
}

// Tokens of `steps` passes and the time of each in µs.
template <class RunOne>
Result<std::vector<float>> run_passes(const Block& block, const Device& device, std::uint32_t steps,
                                      std::vector<double>& us, RunOne&& run_one) {
  ONEPASS_TRY(block.restart(1, 0));
  for (std::uint32_t i = 0; i < steps; ++i) {
    const auto begin = Clock::now();
    ONEPASS_TRY(run_one());
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::vector<float> logits(block.logits().shape.elements());
  ONEPASS_TRY(device.read_as<float>(block.logits().view, logits));
  return logits;
}

Status run_block(BlockArgs& args) {
  ONEPASS_ASSIGN(const Device device, args.device.open_and_tell());
  ONEPASS_ASSIGN(const Block block, Block::create(device, args.shape, 1));
  const GraphExecutor executor(device);

  std::vector<double> direct_us, recorded_us, plan_us;
  ONEPASS_ASSIGN(const std::vector<float> direct,
                 run_passes(block, device, args.steps, direct_us, [&]() -> Status {
                   GraphSession s = executor.begin();
                   block.forward(s);
                   ONEPASS_TRY(s.finish());
                   return {};
                 }));
  FinishReport finished;
  ONEPASS_ASSIGN(const std::vector<float> recorded,
                 run_passes(block, device, args.steps, recorded_us, [&]() -> Status {
                   GraphSession s = executor.begin_recorded();
                   block.forward(s);
                   ONEPASS_ASSIGN(finished, s.finish());
                   return {};
                 }));
  GraphSession s = executor.begin_recorded();
  block.forward(s);
  PlanOptions options;
  options.step = &block.step();
  ONEPASS_ASSIGN(const Plan plan, s.compile(options));
  ONEPASS_ASSIGN(const std::vector<float> replayed,
                 run_passes(block, device, args.steps, plan_us, [&] { return plan.run(); }));
  const auto equal = [&](const std::vector<float>& other) {
    return std::memcmp(direct.data(), other.data(), direct.size() * sizeof(float)) == 0;
  };
  if (!equal(recorded) || !equal(replayed)) {
    return fail(ErrorCode::internal, "block: the three ways gave different logits");
  }
  if (!args.dot.empty()) {
    ONEPASS_TRY(write_file(args.dot, plan.to_dot()));
  }
  if (args.json) return put(plan.to_json());
  std::string out;
  const PlanReport& r = plan.report();
  print_to(out, "one token through %u layer(s) of width %u\n", args.shape.layers, args.shape.dim);
  print_to(out,
           "  dispatches %u, levels %u, barriers %u (= longest path - 1), edges %u of %u found\n",
           r.dispatches, r.levels, r.barriers, r.edges, r.hazard_edges);
  print_to(out, "  scratch %.1f KiB in an arena of %.1f KiB\n",
           static_cast<double>(r.scratch_bytes) / 1024.0,
           static_cast<double>(r.arena_bytes) / 1024.0);
  print_to(out,
           "  schedule proven: %s; compiled in %.0f us (hazards %.0f, memory %.0f, proof %.0f)\n",
           r.validated ? "yes" : "no",
           static_cast<double>(r.fuse_ns + r.lower_ns + r.hazards_ns + r.memory_ns + r.validate_ns +
                               r.record_ns) /
               1e3,
           static_cast<double>(r.hazards_ns) / 1e3, static_cast<double>(r.memory_ns) / 1e3,
           static_cast<double>(r.validate_ns) / 1e3);
  print_to(out, "median of %u tokens, same bits in all three:\n", args.steps);
  print_to(out, "  direct         %8.1f us\n", median_us(direct_us));
  print_to(out, "  recorded       %8.1f us  (%u barriers, %u moved)\n", median_us(recorded_us),
           finished.barrier_count(), finished.moved);
  print_to(out, "  replayed plan  %8.1f us\n", median_us(plan_us));
  if (args.device.profile) {
    print_to(out, "%-24s %8s %12s %10s\n", "kernel", "count", "total us", "mean us");
    for (const LabelTimes& t : device.profile().dispatches) {
      print_to(out, "%-24s %8llu %12.1f %10.2f\n", t.label.c_str(),
               static_cast<unsigned long long>(t.count), static_cast<double>(t.total_ns) / 1e3,
               static_cast<double>(t.total_ns) / 1e3 / static_cast<double>(t.count));
    }
  }
  return put(out);
}

}  // namespace

void add_block(CLI::App& app, Run& run) {
  const auto args = std::make_shared<BlockArgs>();
  CLI::App* command = app.add_subcommand(
      "block", "run a transformer block direct, recorded and as a replayed plan");
  args->device.add_to(*command);
  command->add_option("--layers", args->shape.layers)
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command->add_option("--dim", args->shape.dim)->capture_default_str()->check(CLI::Range(8, 8192));
  command->add_option("--steps", args->steps, "tokens")
      ->check(CLI::Range(1u, args->shape.context))
      ->capture_default_str();
  command->add_flag("--json", args->json, "the plan as JSON on stdout");
  command->add_option("--dot", args->dot, "write the plan as a Graphviz file");
  command->footer("Example:\n  onepass block --layers 4 --threads 2");
  command->callback([&run, args] { run = [args] { return exit_code(run_block(*args)); }; });
}

}  // namespace onepass::tool
