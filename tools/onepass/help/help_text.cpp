#include <algorithm>

#include "options/option_table.h"

namespace onepass::tool {
namespace {

constexpr std::size_t columns = 100;
constexpr std::size_t help_column = 28;

void add_row(std::string& out, const std::string& heading, const std::string& help) {
  std::string line = "  " + heading;
  if (line.size() + 2 > help_column) {
    out += line + "\n";
    line.clear();
  }
  for (const std::string& part : wrap(help, columns - help_column)) {
    line += std::string(help_column - line.size(), ' ') + part;
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    line.clear();
  }
}

std::string option_help(const OptionRow& o) {
  std::string text = o.help;
  // Names of choices are often part of the help already.
  if (!o.default_value.empty()) {
    text += (text.empty() ? "" : " ") + ("(default: " + o.default_value + ")");
  }
  if (o.required && !o.positional) text += " (required)";
  return text;
}

// A short heading for long lists of choices.
std::string option_heading(const OptionRow& o) {
  if (o.kind != ValueKind::choice || o.value.size() <= 24) return o.heading();
  OptionRow shorter = o;
  shorter.value = "NAME";
  return shorter.heading();
}

}  // namespace

std::string help_text(const CommandRow& command) {
  std::string out = command.help + "\n\nUsage: " + command.usage() + "\n";
  std::string group;
  for (const OptionRow& o : command.options) {
    const std::string title = o.positional ? "Arguments" : o.group;
    if (title != group) out += "\n" + title + ":\n";
    group = title;
    add_row(out, option_heading(o), option_help(o));
  }
  group.clear();
  for (const CommandRow& c : command.commands) {
    const bool is_top = command.words.size() == 1;
    const std::string title = is_top ? c.group : "Commands";
    if (title != group) out += "\n" + title + ":\n";
    group = title;
    add_row(out, c.name(), c.help);
  }
  if (!command.notes.empty()) out += "\n";
  for (const std::string& note : command.notes) {
    for (const std::string& line : wrap(note, columns)) out += line + "\n";
  }
  if (!command.examples.empty()) {
    out += command.examples.size() == 1 ? "\nExample:\n" : "\nExamples:\n";
    for (const std::string& example : command.examples) out += "  " + example + "\n";
  }
  return out;
}

}  // namespace onepass::tool
