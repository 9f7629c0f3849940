#include "print_to.h"

#include <cstdarg>
#include <cstdio>

namespace onepass::tool {

void print_to(std::string& out, const char* format, ...) {
  std::va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  const int n = std::vsnprintf(nullptr, 0, format, values);
  va_end(values);
  if (n > 0) {
    const std::size_t before = out.size();
    out.resize(before + static_cast<std::size_t>(n) + 1);
    std::vsnprintf(out.data() + before, static_cast<std::size_t>(n) + 1, format, again);
    out.pop_back();
  }
  va_end(again);
}

}  // namespace onepass::tool
