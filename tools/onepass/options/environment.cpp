#include "environment.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>

#include "habits.h"
#include "suggest.h"

extern "C" char** environ;

namespace onepass::tool {
namespace {

constexpr const char* prefix = "ONEPASS_";

struct OtherVariable {
  const char* name;
  const char* help;
};
constexpr OtherVariable others[] = {
    {"ONEPASS_MODELS", "folder of the model in the box"},
    {"ONEPASS_FULL", "1: tests take their long form; the tool does not read it"},
    {"ONEPASS_TEST_DATA", "folder with test models; the tool does not read it"},
};

// Whether the words may set an option: "--top-k", "--top-k=4", "-k4".
bool is_given(const CLI::Option& option, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    for (const std::string& name : option.get_lnames()) {
      if (word == "--" + name || word.starts_with("--" + name + "=")) return true;
    }
    for (const std::string& name : option.get_snames()) {
      if (word.starts_with("-" + name)) return true;
    }
    return false;
  });
}

}  // namespace

std::vector<Variable> known_variables(const CommandRow& all) {
  std::map<std::string, Variable> found;
  for (const OtherVariable& o : others) found[o.name] = {o.name, o.help, {}};
  for_each_command(all, [&](const CommandRow& command) {
    for (const OptionRow& o : command.options) {
      if (o.variable.empty()) continue;
      Variable& v = found[o.variable];
      if (v.name.empty()) v = {o.variable, o.help, {}};
      const std::string path = command.path();
      const std::string below = path.substr(std::min(all.path().size() + 1, path.size()));
      v.used_by.push_back((below.empty() ? "" : below + " ") + o.names.back());
    }
  });
  std::vector<Variable> list;
  for (auto& [name, variable] : found) list.push_back(std::move(variable));
  return list;
}

const char* variable_value(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr || *value == '\0' ? nullptr : value;
}

std::vector<std::string> unknown_variables(const std::vector<Variable>& known) {
  std::vector<std::string> unknown;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals == nullptr || std::strncmp(*entry, prefix, std::strlen(prefix)) != 0) continue;
    std::string name(static_cast<const char*>(*entry), equals);
    const bool is_known =
        std::any_of(known.begin(), known.end(), [&](const Variable& v) { return v.name == name; });
    if (!is_known) unknown.push_back(std::move(name));
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

void bind_environment(CLI::App& app, const std::vector<std::string>& words) {
  CLI::App* command = &asked_command(app, words);
  if (command == &app) return;
  std::vector<const CLI::Option*> set;
  const auto is_there = [&](const CLI::Option* option) {
    return std::find(set.begin(), set.end(), option) != set.end() || is_given(*option, words);
  };
  for (CLI::Option* option : command->get_options()) {
    const std::string name = variable_of(*option);
    const std::set<CLI::Option*> excluded = option->get_excludes();
    if (name.empty() || std::any_of(excluded.begin(), excluded.end(), is_there)) continue;
    option->envname(name);
    if (variable_value(name) != nullptr) set.push_back(option);
  }
}

std::string told_by_variable(const CLI::Option& option) {
  const char* value = option.get_envname().empty() ? nullptr : variable_value(option.get_envname());
  if (value == nullptr || option.results() != std::vector<std::string>{value}) return {};
  return " (" + option.get_envname() + "=" + value + ")";
}

void warn_of_unknown_variables(const CLI::App& app) {
  if (unknown_variables({}).empty()) return;
  const std::vector<Variable> known = known_variables(table_of(app));
  std::vector<std::string> names;
  for (const Variable& v : known) names.push_back(v.name);
  for (const std::string& name : unknown_variables(known)) {
    std::cerr << "onepass: warning: unknown environment variable " << name
              << did_you_mean(name, names) << " ('onepass env' lists them)\n";
  }
}

}  // namespace onepass::tool
