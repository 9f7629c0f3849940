#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>

#include "common.h"
#include "common/json_writer.h"
#include "common/order_text.h"
#include "plan/plan_file.h"
#include "run/decoder.h"

namespace onepass::tool {
namespace {

struct GraphArgs {
  ModelArgs model;
  std::uint32_t prefill = 0;
  std::uint32_t context = 0;
  bool no_fuse = false;
  bool unfolded = false;  // the picture has every step
  std::string policy = "exact";
  std::string dot, svg;
  bool json = false;
};

struct Schedule {
  PlanReport report;
  std::uint32_t rows = 1;
  std::uint32_t per_layer = 0;  // dispatches that the last layer adds
  std::uint32_t hazards = 0;
};

std::string as_json(const GraphArgs& args, const llm::ModelConfig& c, const Schedule& s) {
  const PlanReport& r = s.report;
  JsonWriter json;
  json.begin_object();
  json.key("architecture").value(c.architecture->name).key("layers").value(c.n_layers);
  json.key("rows").value(s.rows).key("fuse").value(!args.no_fuse).key("policy").value(args.policy);
  json.key("dispatches").value(r.dispatches).key("dispatches_per_layer").value(s.per_layer);
  json.key("barriers").value(r.barriers).key("levels").value(r.levels);
  json.key("longest_path").value(r.longest_path).key("edges").value(r.edges);
  json.key("order").value(order_name(r.order)).key("edges_issued").value(r.edges_issued);
  json.key("programmatic").value(r.programmatic).key("added").value(r.added);
  json.key("fused").begin_object();
  for (const FuseReport::Rule& rule : r.fused.rules) json.key(rule.name).value(rule.count);
  json.end_object();
  json.key("moved").value(r.moved).key("arena_bytes").value(r.arena_bytes);
  json.key("scratch_bytes").value(r.scratch_bytes).key("hazards").value(s.hazards);
  return json.end_object().text() + "\n";
}

std::string as_text(const GraphArgs& args, const llm::ModelConfig& c, const Schedule& s) {
  const PlanReport& r = s.report;
  char text[1024];
  std::snprintf(text, sizeof text,
                "%s of %u row%s through %u layers of %s, %s order%s\n"
                "dispatches   %8u   %u per layer\n"
                "levels       %8u   longest path %u\n"
                "edges        %8u   %s issued\n"
                "moved        %8u\n"
                "arena        %8s   %s without sharing\n"
                "hazards      %8u\n",
                s.rows == 1 ? "decode" : "prefill", s.rows, s.rows == 1 ? "" : "s", c.n_layers,
                std::string(c.architecture->name).c_str(), args.policy.c_str(),
                args.no_fuse ? ", nothing fused" : "", r.dispatches, s.per_layer, r.levels,
                r.longest_path, r.edges, issued_text(r).c_str(), r.moved,
                show_bytes(r.arena_bytes).c_str(), show_bytes(r.scratch_bytes).c_str(), s.hazards);
  std::string out = text;
  for (const FuseReport::Rule& rule : r.fused.rules) {
    std::snprintf(text, sizeof text, "fused        %8u   %s\n", rule.count, rule.name);
    out += text;
  }
  for (const FuseReport::Kept& kept : r.fused.kept) {
    std::snprintf(text, sizeof text, "kept         %8u   %s: %s\n", kept.count, kept.name,
                  kept.reason);
    out += text;
  }
  return out;
}

Status run_graph(GraphArgs& args) {
  ONEPASS_ASSIGN(const std::string path, args.model.path());
  CacheArgs cache{.context = args.context, .option = "-c"};
  if (args.context == 0) cache.context = 4096, cache.up_to_trained = true;
  ONEPASS_ASSIGN(const llm::TextModel opened, args.model.open(false, cache));
  const llm::ModelConfig& c = opened.model->config();
  Schedule s;
  // As the decoder does: passes of a power of two rows.
  s.rows = std::bit_ceil(std::clamp(args.prefill, 1u, llm::max_chunk_rows));
  llm::DecoderOptions options;
  options.context = args.context != 0 ? args.context : std::min(c.context, 4096u);
  ONEPASS_ASSIGN(const llm::Decoder decoder, llm::Decoder::create(opened.model, options));
  PlanOptions plan_options;
  plan_options.fuse = !args.no_fuse;
  plan_options.policy = args.policy == "greedy" ? Policy::greedy64 : Policy::exact;
  plan_options.validate = false;  // violations are counted instead
  ONEPASS_ASSIGN(const Plan plan, decoder.inspect(s.rows, plan_options));
  ONEPASS_ASSIGN(const Plan shorter, decoder.inspect(s.rows, plan_options, c.n_layers - 1));
  s.report = plan.report();
  s.per_layer = s.report.dispatches - shorter.report().dispatches;
  ONEPASS_ASSIGN(s.hazards, plan.count_hazards());
  if (!args.dot.empty()) ONEPASS_TRY(write_file(args.dot, plan.to_dot()));
  if (!args.svg.empty()) {
    SavedPlan drawn = saved_plan(plan);
    drawn.model = path;
    ONEPASS_TRY(write_file(args.svg, plan_svg(drawn, !args.unfolded)));
  }
  ONEPASS_TRY(put(args.json ? as_json(args, c, s) : as_text(args, c, s)));
  if (s.hazards == 0) return {};
  return fail(ErrorCode::internal, "graph: " + std::to_string(s.hazards) + " unordered pairs");
}

}  // namespace

void add_graph(CLI::App& app, Run& run) {
  const auto args = std::make_shared<GraphArgs>();
  CLI::App* command = app.add_subcommand("graph", "the schedule of a model's pass");
  args->model.add_to(*command);
  command
      ->add_option(
          "--prefill", args->prefill,
          "the pass that N prompt tokens go through, not that of one: rows are a power of two, "
          "512 at most")
      ->check(CLI::Range(1u, llm::max_context));
  add_context_to(*command, args->context, "tokens; auto or 0: as trained, at most 4096");
  command->add_flag("--no-fuse", args->no_fuse, "every op its own dispatch");
  command->add_option("--policy", args->policy, "order of the dispatches: exact or greedy")
      ->check(CLI::IsMember({"exact", "greedy"}))
      ->capture_default_str();
  command->add_option("--dot", args->dot, "write the graph as a Graphviz file")
      ->type_name(file_value);
  command->add_option("--svg", args->svg, "write the graph as a picture")->type_name(file_value);
  command->add_flag("--unfolded", args->unfolded,
                    "of --svg: draw every layer, not equal ones once");
  command->add_flag("--json", args->json, "as JSON");
  command->footer(
      "Examples:\n"
      "  onepass graph -m synthetic:llama-1b:q4_0 --prefill 512 --dot graph.dot\n"
      "  onepass graph --svg graph.svg");
  command->callback([&run, args] { run = [args] { return exit_code(run_graph(*args)); }; });
}

}  // namespace onepass::tool
