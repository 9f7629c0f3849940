#include "profile/profile.h"

#include <memory>

#include "common.h"
#include "common/terminal.h"
#include "run/decoder.h"

namespace onepass::tool {
namespace {

struct ProfileArgs {
  ModelArgs model;
  ProfileOptions options;
  double roof_gb = 0.0;
  std::string trace, html;
  bool json = false;
};

Status write_and_tell(const std::string& path, const std::string& text) {
  ONEPASS_TRY(write_file(path, text));
  notes() << "wrote " << path << " (" << show_bytes(text.size()) << ")\n";
  return {};
}

Status run_profile_command(ProfileArgs& args) {
  if (args.options.tokens == 0 && args.options.prefill == 0) {
    refuse("-n", "0 tokens and no --prefill: there is nothing to profile");
  }
  if (!args.html.empty() && args.html == args.trace) {
    refuse("--html", "names the same file as --trace");
  }
  if (args.options.prefill == 1) refuse("--prefill", "1 token is a decode pass; give 2 or more");
  args.model.device.profile = true;
  args.options.roof = args.roof_gb * 1e9;
  args.options.compare_plans = !args.html.empty();
  ONEPASS_ASSIGN(const std::string path, args.model.path());
  ONEPASS_ASSIGN(const llm::TextModel opened, args.model.open(false));
  warn_of_context(opened.model->config().context,
                  std::uint64_t{args.options.prefill} + args.options.tokens);
  ONEPASS_ASSIGN(const ModelProfile profile, run_profile(opened, path, args.options));
  if (!args.trace.empty()) ONEPASS_TRY(write_and_tell(args.trace, trace_json(profile)));
  if (!args.html.empty()) ONEPASS_TRY(write_and_tell(args.html, profile_page(profile)));
  return put(args.json ? profile_json(profile) : profile_text(profile));
}

}  // namespace

void add_profile(CLI::App& app, Run& run) {
  const auto args = std::make_shared<ProfileArgs>();
  CLI::App* command =
      app.add_subcommand("profile", "time every kernel of a model's passes; trace and page");
  args->model.add_to(*command);
  const CLI::Range tokens(0u, llm::max_context);
  command->add_option("-n,--n-gen", args->options.tokens, "tokens to decode")
      ->check(tokens)
      ->capture_default_str();
  command->add_option("--prefill", args->options.prefill, "first a prompt of N tokens")
      ->check(tokens);
  add_context_to(*command, args->options.context, "tokens; auto or 0: as many as needed");
  command->add_option("--roof", args->roof_gb, "memory speed in GB/s (default: measured)")
      ->check(number_from(0.0, 1e6));
  command->add_option("--trace", args->trace, "write a trace for ui.perfetto.dev")
      ->type_name(file_value);
  command->add_option("--html", args->html, "write a page for the browser")->type_name(file_value);
  command->add_flag("--json", args->json, "as JSON");
  command->footer(
      "Examples:\n"
      "  onepass profile -n 32\n"
      "  onepass profile -m model.gguf -n 16 --prefill 512 --html profile.html\n"
      "  onepass profile -m synthetic:llama-1b:q4_0 -n 8 --trace trace.json\n"
      "docs/profile.md tells how to read it.");
  command->callback(
      [&run, args] { run = [args] { return exit_code(run_profile_command(*args)); }; });
}

}  // namespace onepass::tool
