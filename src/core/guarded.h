// No exception leaves the library: public functions that may allocate run under one of these.
#pragma once

#include <new>
#include <stdexcept>
#include <utility>

#include "onepass/result.h"

namespace onepass {

// Short enough for the small-string buffer: making it allocates nothing.
inline Error host_out_of_memory(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  Error e;
  e.code = ErrorCode::out_of_memory;
  e.message = "out of memory";
  e.file = file;
  e.line = line;
  return e;
}

// f returns a Result; host allocation failures become its error.
template <class F>
auto guarded(F&& f, const char* file = __builtin_FILE(), int line = __builtin_LINE())
    -> decltype(f()) {
  try {
    return std::forward<F>(f)();
  } catch (const std::bad_alloc&) {
    return host_out_of_memory(file, line);
  } catch (const std::length_error&) {
    return host_out_of_memory(file, line);
  }
}

}  // namespace onepass
