#include "option_table.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "common/terminal.h"
#include "habits.h"
#include "sizes.h"

namespace onepass::tool {
namespace {

// "a,b" of "TEXT:{a,b}".
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.find('}', std::min(open, type.size()));
  if (open == type.npos || close == type.npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

// By the name of an option's type: the parser's own, and those of option_table.h.
struct ValueRow {
  std::string_view type;  // begins with it
  ValueKind kind;
  const char* value;
};
constexpr ValueRow value_rows[] = {
    {"UINT", ValueKind::number, "N"},
    {"INT", ValueKind::number, "N"},
    {"FLOAT", ValueKind::number, "X"},
    {count_value, ValueKind::number, count_value},
    {file_value, ValueKind::file, file_value},
    {folder_value, ValueKind::file, folder_value},
    {device_value, ValueKind::device, device_value},
    {model_value, ValueKind::model, model_value},
    {command_value, ValueKind::command, command_value},
    {"", ValueKind::text, "TEXT"},
};

void set_value(OptionRow& row, const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return;
  const std::string type = option.get_type_name();
  row.choices = choices_of(type);
  row.repeated = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  if (!row.choices.empty()) {
    row.kind = ValueKind::choice;
    for (const std::string& choice : row.choices)
      row.value += (row.value.empty() ? "" : "|") + choice;
  } else {
    const auto known =
        std::find_if(std::begin(value_rows), std::end(value_rows),
                     [&](const ValueRow& known_row) { return type.starts_with(known_row.type); });
    row.kind = known->kind;
    row.value = known->value;
  }
  row.default_value = option.get_default_str();
  // "[512]" of a list.
  if (row.default_value.starts_with('[') && row.default_value.ends_with(']')) {
    row.default_value = row.default_value.substr(1, row.default_value.size() - 2);
  }
}

OptionRow row_of(const CLI::App& command, const CLI::Option& option, bool positional) {
  OptionRow row;
  if (!positional) row.aliases = aliases_of(command, option);
  row.positional = positional;
  if (positional) row.names.push_back(option.get_name(true, false));
  for (const std::string& name : positional ? std::vector<std::string>{} : option.get_snames()) {
    row.names.push_back("-" + name);
  }
  for (const std::string& name : positional ? std::vector<std::string>{} : option.get_lnames()) {
    row.names.push_back("--" + name);
  }
  row.help = option.get_description();
  row.group = option.get_group();
  row.required = option.get_required();
  row.variable = positional ? "" : variable_of(option);
  set_value(row, option);
  return row;
}

// Lines behind "Example:" or "Examples:" are for a shell, the others are notes: paragraphs.
void read_footer(const std::string& footer, CommandRow& row) {
  bool examples = false, paragraph = false;
  for (const std::string& line : CLI::detail::split(footer, '\n')) {
    const bool begins = line == "Example:" || line == "Examples:";
    const bool is_example = examples && line.starts_with("  ");
    if (is_example) {
      row.examples.push_back(line.substr(2));
    } else if (!begins && !line.empty()) {
      if (paragraph) {
        row.notes.back() += " " + line;
      } else {
        row.notes.push_back(line);
      }
    }
    paragraph = !begins && !is_example && !line.empty();
    examples = begins || is_example;
  }
}

CommandRow command_of(const CLI::App& app, std::vector<std::string> words) {
  CommandRow row;
  row.words = std::move(words);
  row.help = app.get_description();
  row.group = app.get_group();
  read_footer(app.get_footer(), row);
  std::vector<std::string> option_groups;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) row.options.push_back(row_of(app, *option, true));
    const auto known = std::find(option_groups.begin(), option_groups.end(), option->get_group());
    if (known == option_groups.end()) option_groups.push_back(option->get_group());
  }
  // The command's own options come before those that many have.
  std::stable_partition(option_groups.begin(), option_groups.end(),
                        [](const std::string& g) { return g == "Options"; });
  for (const std::string& group : option_groups) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() == group && option->nonpositional()) {
        row.options.push_back(row_of(app, *option, false));
      }
    }
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name().empty() || command->get_group().empty()) continue;
    std::vector<std::string> path = row.words;
    path.push_back(command->get_name());
    row.commands.push_back(command_of(*command, std::move(path)));
  }
  return row;
}

class TableFormatter final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::vector<std::string> words;
    for (const CLI::App* a = app; a != nullptr; a = a->get_parent()) {
      words.insert(words.begin(), a->get_parent() == nullptr ? "onepass" : a->get_name());
    }
    return help_text(command_of(*app, std::move(words)));
  }
};

}  // namespace

std::string OptionRow::heading() const {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  if (positional) return text + (repeated ? " ..." : "");
  return text + (value.empty() ? "" : " " + value);
}

std::string CommandRow::path() const {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string CommandRow::usage() const {
  std::string text = path() + (commands.empty() ? "" : " COMMAND");
  bool has_options = false;
  std::string arguments;
  for (const OptionRow& o : options) {
    if (o.positional) {
      arguments += o.required ? " " + o.heading() : " [" + o.heading() + "]";
    } else if (o.required) {
      text += " " + o.names.back() + (o.value.empty() ? "" : " " + o.value);
    } else {
      has_options = true;
    }
  }
  return text + (has_options ? " [OPTION ...]" : "") + arguments;
}

CommandRow table_of(const CLI::App& app) { return command_of(app, {"onepass"}); }

void for_each_command(const CommandRow& top, const std::function<void(const CommandRow&)>& each) {
  each(top);
  for (const CommandRow& command : top.commands) for_each_command(command, each);
}

std::string variable_of(const CLI::Option& option) {
  if (option.get_lnames().empty()) return {};
  const std::string& name = option.get_lnames().front();
  if (name == "help" || name == "version") return {};
  // A variable must not make commands fail that are called without it. Whether an argument without
  // a name is given can not be told from the words alone.
  const std::set<CLI::Option*> excluded = option.get_excludes();
  const auto nameless = [](const CLI::Option* o) { return !o->nonpositional(); };
  if (!option.get_needs().empty() || std::any_of(excluded.begin(), excluded.end(), nameless)) {
    return {};
  }
  std::string text = "ONEPASS_";
  for (const char c : name) {
    text += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

void complete_app(CLI::App& app) {
  accept_sizes(app);
  const auto formatter = std::make_shared<TableFormatter>();
  const std::function<void(CLI::App&)> set = [&](CLI::App& a) {
    a.formatter(formatter);
    if (a.get_parent() != nullptr && a.get_subcommands(nullptr).empty()) {
      a.add_flag("-v,--verbose", verbose(),
                 "more on stderr, and where in the sources an error was");
    }
    for (CLI::App* command : a.get_subcommands(nullptr)) set(*command);
  };
  set(app);
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (const std::string& word : CLI::detail::split(std::string(text), ' ')) {
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(std::exchange(line, ""));
    }
    line += (line.empty() ? "" : " ") + word;
  }
  lines.push_back(line);
  return lines;
}

}  // namespace onepass::tool
