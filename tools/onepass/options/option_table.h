// Every command and option as the parser knows them: what help, completion scripts, manual pages
// and the list of environment variables are made from.
//
//   const CommandRow all = table_of(app);
//   for_each_command(all, [](const CommandRow& c) { print(c.path(), c.help); });
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace onepass::tool {

// What follows an option, as a shell completes it.
enum class ValueKind : std::uint8_t { none, number, text, file, choice, device, model, command };

// An option whose value is more than text or a number says so: ->type_name(file_value).
inline constexpr char file_value[] = "FILE", folder_value[] = "FOLDER", device_value[] = "DEVICE",
                      model_value[] = "MODEL", command_value[] = "COMMAND", count_value[] = "N";

struct OptionRow {
  std::vector<std::string> names;    // "-c", "--context"; of a positional one without dashes
  std::vector<std::string> aliases;  // names of other programs that work as well
  std::string help;
  std::string group;
  std::string value;                 // "N", "FILE", "f16|f32"; of a flag empty
  std::vector<std::string> choices;  // of kind choice
  std::string default_value;         // empty: none to show
  std::string variable;              // environment variable; empty: none
  ValueKind kind = ValueKind::none;
  bool positional = false;
  bool required = false;
  bool repeated = false;  // takes several values

  // "-c, --context N"
  std::string heading() const;
};

struct CommandRow {
  std::vector<std::string> words;  // "onepass", "plan", "show"
  std::string help;
  std::string group;  // among the commands beside it
  std::vector<std::string> notes;
  std::vector<std::string> examples;  // lines for a shell
  std::vector<OptionRow> options;     // positional ones first, then group by group
  std::vector<CommandRow> commands;   // in the order they were added

  const std::string& name() const { return words.back(); }
  std::string path() const;  // "onepass plan show"
  std::string usage() const;
};

CommandRow table_of(const CLI::App& app);

// The command and all below it.
void for_each_command(const CommandRow& top, const std::function<void(const CommandRow&)>& each);

// The name of the variable that sets an option, "ONEPASS_TOP_K"; empty: there is none.
std::string variable_of(const CLI::Option& option);

// To be called once all commands were added: gives each -v, lets whole numbers be written as
// 32k and help be printed from the table.
void complete_app(CLI::App& app);

// The help of a command, as --help prints it.
std::string help_text(const CommandRow& command);

// Lines of at most `width` columns, broken between words.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

}  // namespace onepass::tool
