#include <cstdio>
#include <memory>

#include "common.h"
#include "common/json_writer.h"
#include "options/environment.h"

namespace onepass::tool {
namespace {

struct EnvArgs {
  bool json = false;
  bool set_only = false;
};

std::string users_of(const Variable& v) {
  constexpr std::size_t shown = 3;
  std::string text;
  for (std::size_t i = 0; i < v.used_by.size() && i < shown; ++i) {
    text += (i == 0 ? "" : ", ") + v.used_by[i];
  }
  if (v.used_by.size() > shown) text += ", ...";
  return text;
}

Status run_env(const CLI::App& app, const EnvArgs& args) {
  const std::vector<Variable> known = known_variables(table_of(app));
  const std::vector<std::string> unknown = unknown_variables(known);
  if (args.json) {
    JsonWriter json;
    json.begin_object().key("variables").begin_array();
    for (const Variable& v : known) {
      const char* value = variable_value(v.name);
      if (args.set_only && value == nullptr) continue;
      json.begin_object().key("name").value(v.name).key("value");
      value != nullptr ? json.value(value) : json.null();
      json.key("help").value(v.help).key("used_by").begin_array();
      for (const std::string& user : v.used_by) json.value(user);
      json.end_array().end_object();
    }
    json.end_array().key("unknown").begin_array();
    for (const std::string& name : unknown) json.value(name);
    return put(json.end_array().end_object().text() + "\n");
  }
  std::string text;
  for (const Variable& v : known) {
    const char* value = variable_value(v.name);
    if (args.set_only && value == nullptr) continue;
    char line[64];
    std::snprintf(line, sizeof line, "%-26s ", v.name.c_str());
    text += line + (value != nullptr ? "= " + valid_utf8(value) : std::string("not set"));
    const std::string users = users_of(v);
    text += "  # " + v.help + (users.empty() ? "" : " (" + users + ")") + "\n";
  }
  for (const std::string& name : unknown) text += name + "  # unknown\n";
  return put(text);
}

}  // namespace

void add_env(CLI::App& app, Run& run) {
  const auto args = std::make_shared<EnvArgs>();
  CLI::App* command =
      app.add_subcommand("env", "the environment variables that are read, and their values");
  command->add_flag("--set", args->set_only, "only those that are set");
  command->add_flag("--json", args->json, "as one JSON object");
  command->footer(
      "Options have a variable, ONEPASS_ and their long name: --top-k is ONEPASS_TOP_K; those that "
      "go "
      "only with, or never with, others have none. What the command line says comes first. A flag "
      "is "
      "set by 1 or true.\n"
      "Examples:\n  onepass env\n  ONEPASS_THREADS=1 onepass env --set");
  command->callback(
      [&app, &run, args] { run = [&app, args] { return exit_code(run_env(app, *args)); }; });
}

}  // namespace onepass::tool
