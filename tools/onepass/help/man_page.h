// Manual pages.
#pragma once

#include <string>

#include "options/option_table.h"

namespace onepass::tool {

// "onepass-generate.1"
std::string man_file_name(const CommandRow& command);
// The page in roff. `top`: what `command` belongs to, or is.
std::string man_page(const CommandRow& command, const CommandRow& top);

}  // namespace onepass::tool
