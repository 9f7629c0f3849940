// Environment variables: one for each option of the command line, and a few more.
#pragma once

#include <string>
#include <vector>

#include "option_table.h"

namespace onepass::tool {

struct Variable {
  std::string name;
  std::string help;
  std::vector<std::string> used_by;  // "generate --top-k"; of the others empty
};

// All that are read, by name.
std::vector<Variable> known_variables(const CommandRow& all);

// Names of set variables that look like ours and are not.
std::vector<std::string> unknown_variables(const std::vector<Variable>& known);

// Empty values count as not set.
const char* variable_value(const std::string& name);

// Takes what the options of the command in the words were not given from the environment. Before
// parsing; only that command: a wrong value must not hurt others. Variables of options that exclude
// one of the words, or one that a variable before them sets, are passed over.
void bind_environment(CLI::App& app, const std::vector<std::string>& words);

// After parsing: " (ONEPASS_TOP_K=many)" if the option has its value from there, else nothing.
std::string told_by_variable(const CLI::Option& option);

// On stderr, one line for each.
void warn_of_unknown_variables(const CLI::App& app);

}  // namespace onepass::tool
