// What `value is name(...)` says.
#pragma once

#include <string_view>

#include "text/template/object.h"

namespace onepass::llm::chat {

struct Test {
  const char* name;
  std::size_t n_args;
  Result<bool> (*apply)(Interpreter& interpreter, const Value& input, const Args& args);
};

// Null: there is none of this name.
const Test* find_test(std::string_view name) noexcept;
// Checks the number of arguments first.
Result<bool> apply_test(Interpreter& interpreter, const Test& test, const Value& input,
                        const Args& args);

}  // namespace onepass::llm::chat
