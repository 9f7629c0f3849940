#include <algorithm>
#include <bit>
#include <memory>

#include "common.h"
#include "common/terminal.h"
#include "plan/plan_file.h"
#include "run/decoder.h"

namespace onepass::tool {
namespace {

struct PlanArgs {
  ModelArgs model;
  std::uint32_t prefill = 0, context = 0;
  bool no_fuse = false, json = false, exit_code = false;
  std::string policy = "exact", out;
  std::string before, after;
};

Result<SavedPlan> compile_plan(PlanArgs& args) {
  ONEPASS_ASSIGN(const std::string path, args.model.path());
  ONEPASS_ASSIGN(const llm::TextModel opened, args.model.open(false));
  llm::DecoderOptions options;
  options.context =
      args.context != 0 ? args.context : std::min(opened.model->config().context, 4096u);
  ONEPASS_ASSIGN(const llm::Decoder decoder, llm::Decoder::create(opened.model, options));
  PlanOptions plan_options;
  plan_options.fuse = !args.no_fuse;
  plan_options.policy = args.policy == "greedy" ? Policy::greedy64 : Policy::exact;
  const std::uint32_t rows = std::bit_ceil(std::clamp(args.prefill, 1u, llm::max_chunk_rows));
  ONEPASS_ASSIGN(const Plan plan, decoder.inspect(rows, plan_options));
  SavedPlan saved = saved_plan(plan);
  saved.model = path;
  saved.device = opened.model->device().info().name;
  saved.policy = args.policy;
  saved.fuse = plan_options.fuse;
  saved.rows = rows;
  return saved;
}

void add_compile_options(CLI::App& command, PlanArgs& args) {
  args.model.add_to(command);
  command
      .add_option(
          "--prefill", args.prefill,
          "the pass that N prompt tokens go through, not that of one: rows are a power of two, "
          "512 at most")
      ->check(CLI::Range(1u, llm::max_context));
  add_context_to(command, args.context, "tokens; auto or 0: as trained, at most 4096");
  command.add_flag("--no-fuse", args.no_fuse, "every op its own dispatch");
  command.add_option("--policy", args.policy, "order of the dispatches: exact or greedy")
      ->check(CLI::IsMember({"exact", "greedy"}))
      ->capture_default_str();
}

Status show(PlanArgs& args) {
  ONEPASS_ASSIGN(const SavedPlan plan, compile_plan(args));
  return put(args.json ? plan_json(plan) : plan_text(plan));
}

Status save(PlanArgs& args) {
  ONEPASS_ASSIGN(const SavedPlan plan, compile_plan(args));
  ONEPASS_TRY(write_file(args.out, plan_json(plan)));
  notes() << "wrote " << args.out << ": " << plan.dispatches() << " dispatches\n";
  return {};
}

int diff(PlanArgs& args) {
  bool same = true;
  const auto compare = [&]() -> Status {
    ONEPASS_ASSIGN(const SavedPlan a, read_plan(args.before));
    ONEPASS_ASSIGN(const SavedPlan b, read_plan(args.after));
    const PlanDiff difference = diff_plans(a, b);
    same = difference.same;
    return put(args.json ? plan_diff_json(a, b, difference) : plan_diff_text(a, b, difference));
  };
  if (const int code = exit_code(compare()); code != 0) return code;
  return args.exit_code && !same ? 1 : 0;
}

}  // namespace

void add_plan(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("plan", "show, save and compare compiled passes");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  onepass plan show -m synthetic:tiny:q8_0\n"
      "  onepass plan save --out before.json\n"
      "  onepass plan save --no-fuse --out after.json\n"
      "  onepass plan diff before.json after.json");
  const auto add = [&](const char* name, const char* about, const char* example, auto&& options,
                       auto&& action) {
    const auto args = std::make_shared<PlanArgs>();
    CLI::App* sub = command->add_subcommand(name, about);
    options(*sub, *args);
    sub->footer(std::string("Example:\n  onepass plan ") + example);
    sub->callback([&run, args, action] { run = [args, action] { return action(*args); }; });
  };
  add(
      "show", "the dispatches of a pass: level, kernel, bytes, place in the arena",
      "show -m synthetic:tiny:q8_0 --prefill 64",
      [](CLI::App& sub, PlanArgs& args) {
        add_compile_options(sub, args);
        sub.add_flag("--json", args.json, "as the file that save writes");
      },
      [](PlanArgs& args) { return exit_code(show(args)); });
  add(
      "save", "write a compiled pass to a file", "save -m synthetic:tiny:q8_0 --out plan.json",
      [](CLI::App& sub, PlanArgs& args) {
        add_compile_options(sub, args);
        sub.add_option("-o,--out", args.out, "the file")->type_name(file_value)->required();
      },
      [](PlanArgs& args) { return exit_code(save(args)); });
  add(
      "diff", "what differs between two saved passes", "diff before.json after.json",
      [](CLI::App& sub, PlanArgs& args) {
        sub.add_option("before", args.before, "a file of plan save")
            ->type_name(file_value)
            ->required();
        sub.add_option("after", args.after, "another one")->type_name(file_value)->required();
        sub.add_flag("--json", args.json, "as JSON");
        sub.add_flag("--exit-code", args.exit_code, "exit 1 where they differ");
      },
      [](PlanArgs& args) { return diff(args); });
}

}  // namespace onepass::tool
