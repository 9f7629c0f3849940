// What a running template makes besides plain values. All of it belongs to the interpreter.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/value.h"

namespace onepass::llm::chat {

struct Statement;
class Interpreter;

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Function {
  const char* name;
  Result<Value> (*call)(Interpreter& interpreter, Args& args);
};

struct Object {
  virtual ~Object() = default;
  virtual const char* type_name() const noexcept = 0;
};

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> variables;  // names live in the template
  bool captured = false;                                      // a macro may still look at it
};

struct Namespace final : Object {
  const char* type_name() const noexcept override { return "namespace"; }
  std::vector<std::pair<std::string, Value>> attributes;
};

struct Macro final : Object {
  const char* type_name() const noexcept override { return "macro"; }
  const Statement* definition = nullptr;
  Scope* scope = nullptr;
};

// The variable `loop`.
struct Loop final : Object {
  const char* type_name() const noexcept override { return "loop"; }
  std::vector<Value> items;
  std::size_t index = 0;  // from 0
  std::vector<Value> last_seen;
  bool has_seen = false;
};

// What joiner() gives: nothing at first, then the separator.
struct Joiner final : Object {
  const char* type_name() const noexcept override { return "joiner"; }
  Value separator;
  bool used = false;
};

}  // namespace onepass::llm::chat
