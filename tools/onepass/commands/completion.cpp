#include "help/completion.h"

#include <memory>

#include "common.h"

namespace onepass::tool {
namespace {

struct CompletionArgs {
  std::string shell;
  std::string out;
};

Status run_completion(const CLI::App& app, const CompletionArgs& args) {
  const CommandRow all = table_of(app);
  const std::string text = args.shell == "zsh"    ? zsh_completion(all)
                           : args.shell == "fish" ? fish_completion(all)
                                                  : bash_completion(all);
  if (args.out.empty()) return put(text);
  return write_file(args.out, text);
}

}  // namespace

void add_completion(CLI::App& app, Run& run) {
  const auto args = std::make_shared<CompletionArgs>();
  CLI::App* command =
      app.add_subcommand("completion", "a script that completes commands in a shell");
  command->add_option("shell", args->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->add_option("--out", args->out, "write it to a file")->type_name(file_value);
  command->footer(
      "bash: source <(onepass completion bash), for good in ~/.bashrc. zsh: a file _onepass in a "
      "folder of $fpath. fish: ~/.config/fish/completions/onepass.fish.\n"
      "Examples:\n  onepass completion bash\n  onepass completion fish --out onepass.fish");
  command->callback(
      [&app, &run, args] { run = [&app, args] { return exit_code(run_completion(app, *args)); }; });
}

}  // namespace onepass::tool
