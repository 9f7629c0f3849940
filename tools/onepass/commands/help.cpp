#include <algorithm>
#include <cctype>
#include <memory>

#include "common.h"
#include "common/json_writer.h"
#include "options/option_table.h"
#include "options/suggest.h"

namespace onepass::tool {
namespace {

struct HelpArgs {
  std::vector<std::string> command;
  std::string search;
  bool json = false;
};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

Status search(const CommandRow& all, const std::string& asked) {
  const std::string word = lower(asked);
  const auto has = [&word](const std::string& text) {
    return lower(text).find(word) != std::string::npos;
  };
  std::string out;
  std::vector<std::string> known;
  for_each_command(all, [&](const CommandRow& c) {
    known.push_back(c.name());
    const auto note = std::find_if(c.notes.begin(), c.notes.end(), has);
    if (has(c.name()) || has(c.help)) {
      out += c.path() + "\n    " + c.help + "\n";
    } else if (note != c.notes.end()) {
      out += c.path() + "\n    " + *note + "\n";
    }
    for (const OptionRow& o : c.options) {
      for (const std::string& name : o.names) known.push_back(name);
      const bool by_alias = std::any_of(o.aliases.begin(), o.aliases.end(), has);
      if (by_alias || has(o.heading()) || has(o.help) || (!o.variable.empty() && has(o.variable))) {
        out += c.path() + " " + o.heading() + "\n    " + o.help + "\n";
      }
    }
  });
  if (!out.empty()) return put(out);
  return fail(ErrorCode::not_found, "no command or option has '" + asked + "' in its name or text" +
                                        did_you_mean(asked, known));
}

void add_json(JsonWriter& json, const CommandRow& c) {
  json.begin_object().key("command").value(c.path()).key("help").value(c.help);
  json.key("group").value(c.group).key("usage").value(c.usage()).key("notes").begin_array();
  for (const std::string& note : c.notes) json.value(note);
  json.end_array().key("examples").begin_array();
  for (const std::string& example : c.examples) json.value(example);
  json.end_array().key("options").begin_array();
  for (const OptionRow& o : c.options) {
    json.begin_object().key("names").begin_array();
    for (const std::string& name : o.names) json.value(name);
    json.end_array().key("aliases").begin_array();
    for (const std::string& name : o.aliases) json.value(name);
    json.end_array().key("help").value(o.help).key("group").value(o.group);
    json.key("value").value(o.value).key("default").value(o.default_value);
    json.key("choices").begin_array();
    for (const std::string& choice : o.choices) json.value(choice);
    json.end_array().key("variable").value(o.variable).key("required").value(o.required);
    json.key("positional").value(o.positional).end_object();
  }
  json.end_array().key("commands").begin_array();
  for (const CommandRow& command : c.commands) add_json(json, command);
  json.end_array().end_object();
}

Status run_help(const CLI::App& app, const HelpArgs& args) {
  const CommandRow all = table_of(app);
  if (!args.search.empty()) return search(all, args.search);
  const CommandRow* command = &all;
  for (const std::string& word : args.command) {
    std::vector<std::string> names;
    const CommandRow* found = nullptr;
    for (const CommandRow& c : command->commands) {
      names.push_back(c.name());
      if (c.name() == word) found = &c;
    }
    if (found == nullptr) {
      refuse("help",
             "'" + command->path() + "' has no command '" + word + "'" + did_you_mean(word, names));
    }
    command = found;
  }
  if (!args.json) return put(help_text(*command));
  JsonWriter json;
  add_json(json, *command);
  return put(json.text() + "\n");
}

}  // namespace

void add_help(CLI::App& app, Run& run) {
  const auto args = std::make_shared<HelpArgs>();
  CLI::App* command = app.add_subcommand("help", "what a command does, or where a word is told of");
  CLI::Option* words = command->add_option("command", args->command, "the command to tell of")
                           ->type_name(command_value);
  command
      ->add_option("--search", args->search,
                   "list the commands and options with this word in name, text or variable")
      ->excludes(words);
  command->add_flag("--json", args->json, "every command and option as one JSON object")
      ->excludes("--search");
  command->footer(
      "Examples:\n  onepass help generate\n  onepass help --search context\n"
      "  onepass help --json");
  command->callback(
      [&app, &run, args] { run = [&app, args] { return exit_code(run_help(app, *args)); }; });
}

}  // namespace onepass::tool
