// What `value | name(...)` does.
#pragma once

#include <optional>
#include <string_view>

#include "text/template/object.h"

namespace onepass::llm::chat {

struct Filter {
  const char* name;
  Result<Value> (*apply)(Interpreter& interpreter, const Value& input, Args& args);
};

// Null: there is none of this name.
const Filter* find_filter(std::string_view name) noexcept;

// Parts of the table, by what they work on.
const Filter* find_text_filter(std::string_view name) noexcept;
const Filter* find_sequence_filter(std::string_view name) noexcept;

// Arguments by position or name, in the order of `names`; others are an error.
Result<std::vector<std::optional<Value>>> bind(std::string_view what, Args& args,
                                               std::initializer_list<const char*> names);
// The argument as an integer, a truth or a text; the fallback where it was not given.
Result<std::int64_t> integer_or(const std::optional<Value>& arg, std::int64_t fallback);
bool truth_or(const std::optional<Value>& arg, bool fallback);

}  // namespace onepass::llm::chat
