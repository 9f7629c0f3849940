// printf at the end of a string.
#pragma once

#include <string>

namespace onepass::tool {

__attribute__((format(printf, 2, 3))) void print_to(std::string& out, const char* format, ...);

}  // namespace onepass::tool
