// What every op's header needs.
#pragma once

#include <cstdint>

#include "onepass/session.h"

namespace onepass::ops {

// Place of a call; filled by the compiler.
struct Here {
  const char* file;
  int line;
  static constexpr Here now(const char* f = __builtin_FILE(), int l = __builtin_LINE()) {
    return {f, l};
  }
};

// One input, one output.
struct Unary {
  Tensor x;
  Tensor out;
};

}  // namespace onepass::ops
