#include <filesystem>
#include <memory>
#include <system_error>

#include "common.h"
#include "help/man_page.h"

namespace onepass::tool {
namespace {

struct ManArgs {
  std::string folder;
};

Status run_man(const CLI::App& app, const ManArgs& args) {
  const CommandRow all = table_of(app);
  if (args.folder.empty()) return put(man_page(all, all));
  std::error_code error;
  std::filesystem::create_directories(args.folder, error);
  if (error) return fail(ErrorCode::io, args.folder + ": " + error.message());
  Status status;
  for_each_command(all, [&](const CommandRow& c) {
    if (status) status = write_file(args.folder + "/" + man_file_name(c), man_page(c, all));
  });
  return status;
}

}  // namespace

void add_man(CLI::App& app, Run& run) {
  const auto args = std::make_shared<ManArgs>();
  CLI::App* command = app.add_subcommand("man", "write manual pages, one for each command");
  command
      ->add_option("folder", args->folder,
                   "the folder they go to, made if it is not there; none: onepass(1) to stdout")
      ->type_name(folder_value);
  command->footer("Examples:\n  onepass man pages\n  onepass man | head");
  command->callback(
      [&app, &run, args] { run = [&app, args] { return exit_code(run_man(app, *args)); }; });
}

}  // namespace onepass::tool
