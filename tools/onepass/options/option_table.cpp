#include "option_table.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "sizes.h"

namespace onepass::tool {
namespace {

struct Group {
  const char* title;
  std::vector<std::string_view> commands;
};
// In the order of the help. A command that is in no row and has no group of its own is a last one.
const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"Text", {"generate", "chat"}},
      {"Models", {"info", "quantize", "convert", "tokenize", "detokenize"}},
      {"Measure", {"bench", "perplexity", "logits", "profile"}},
      {"Schedules", {"graph", "plan"}},
      {"This machine", {"devices", "doctor", "env"}},
      {"Help", {"help", "completion", "man"}},
  };
  return all;
}
constexpr const char* other_group = "More";
constexpr const char* parser_group = "Subcommands";  // of a command that was given none

std::size_t rank_of(const std::string& group) {
  for (std::size_t i = 0; i < groups().size(); ++i) {
    if (group == groups()[i].title) return i;
  }
  return groups().size();
}

// "a,b" of "TEXT:{a,b}".
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t open = type.find('{'), close = type.find('}', std::min(open, type.size()));
  if (open == type.npos || close == type.npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

bool has_word(const std::string& text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const auto is_letter = [&](std::size_t i) {
      return std::isalpha(static_cast<unsigned char>(text[i])) != 0;
    };
    if ((at == 0 || !is_letter(at - 1)) && (end == text.size() || !is_letter(end))) return true;
  }
  return false;
}

void set_value(OptionRow& row, const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return;
  const std::string type = option.get_type_name();
  const auto is_named = [&](std::string_view name) {
    return std::find(row.names.begin(), row.names.end(), name) != row.names.end();
  };
  row.choices = choices_of(type);
  row.repeated = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  if (!row.choices.empty()) {
    row.kind = ValueKind::choice;
    for (const std::string& choice : row.choices)
      row.value += (row.value.empty() ? "" : "|") + choice;
  } else if (is_named("--device")) {
    row.kind = ValueKind::device;
    row.value = "DEVICE";
  } else if (is_named("--model") || is_named("model")) {
    row.kind = ValueKind::model;
    row.value = "MODEL";
  } else if (type.starts_with("UINT") || type.starts_with("INT")) {
    row.kind = ValueKind::number;
    row.value = "N";
  } else if (type.starts_with("FLOAT")) {
    row.kind = ValueKind::number;
    row.value = "X";
  } else if (has_word(row.help, "folder") && !has_word(row.help, "file")) {
    row.kind = ValueKind::file;
    row.value = "FOLDER";
  } else if (has_word(row.help, "file") || is_named("--file") || is_named("--out")) {
    row.kind = ValueKind::file;
    row.value = "FILE";
  } else {
    row.kind = ValueKind::text;
    row.value = "TEXT";
  }
  row.default_value = option.get_default_str();
  // "[512]" of a list.
  if (row.default_value.starts_with('[') && row.default_value.ends_with(']')) {
    row.default_value = row.default_value.substr(1, row.default_value.size() - 2);
  }
}

OptionRow row_of(const CLI::Option& option, bool positional) {
  OptionRow row;
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
    if (option->get_positional()) row.options.push_back(row_of(*option, true));
    const auto known = std::find(option_groups.begin(), option_groups.end(), option->get_group());
    if (known == option_groups.end()) option_groups.push_back(option->get_group());
  }
  // The command's own options come before those that many have.
  std::stable_partition(option_groups.begin(), option_groups.end(),
                        [](const std::string& g) { return g == "Options"; });
  for (const std::string& group : option_groups) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() == group && option->nonpositional()) {
        row.options.push_back(row_of(*option, false));
      }
    }
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_name().empty() || command->get_group().empty()) continue;
    std::vector<std::string> path = row.words;
    path.push_back(command->get_name());
    row.commands.push_back(command_of(*command, std::move(path)));
  }
  std::stable_sort(
      row.commands.begin(), row.commands.end(),
      [](const CommandRow& a, const CommandRow& b) { return rank_of(a.group) < rank_of(b.group); });
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
  for (CLI::App* command : app.get_subcommands(nullptr)) {
    if (command->get_group() != parser_group) continue;
    command->group(other_group);
    for (const Group& group : groups()) {
      const auto& names = group.commands;
      if (std::find(names.begin(), names.end(), command->get_name()) != names.end()) {
        command->group(group.title);
      }
    }
  }
  accept_sizes(app);
  const auto formatter = std::make_shared<TableFormatter>();
  const std::function<void(CLI::App&)> set = [&](CLI::App& a) {
    a.formatter(formatter);
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
