// Completion scripts for shells.
#pragma once

#include <string>

#include "options/option_table.h"

namespace onepass::tool {

std::string bash_completion(const CommandRow& all);
std::string zsh_completion(const CommandRow& all);
std::string fish_completion(const CommandRow& all);

// "synthetic:tiny:q8_0" and so on: what -m takes besides files.
std::vector<std::string> synthetic_names();

}  // namespace onepass::tool
