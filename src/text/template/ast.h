// A template as a tree. Depths are bounded by the parser, so walking and destroying it is safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template/value.h"

namespace onepass::llm::chat {

struct Filter;
struct Test;

enum class ExprKind : std::uint8_t {
  constant,
  name,
  captured,     // the text of the block whose filters are applied
  list,         // items
  tuple,        // items
  dict,         // key, value, key, value, ...
  attribute,    // items[0].name
  item,         // items[0][items[1]]
  slice,        // items[0][items[1]:items[2]:items[3]], null where left out
  call,         // items[0](items[1], ..., *star, **star_star)
  filter,       // items[0] | name(items[1], ...)
  test,         // items[0] is name(items[1], ...)
  negate,       // -items[0]
  plus,         // +items[0]
  logical_not,  // not items[0]
  logical_and,
  logical_or,
  binary,       // items[0] name items[1]
  compare,      // items[0] ops[0] items[1] ops[1] ...
  concat,       // items[0] ~ items[1] ~ ...
  conditional,  // items[1] if items[0] else items[2], which may be null
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::constant;
  std::uint32_t offset = 0;
  std::uint32_t depth = 1;
  std::string name;
  Value value;
  std::vector<ExprPtr> items;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr star, star_star;
  std::vector<std::string> ops;
  const Filter* filter = nullptr;  // null: there is none of this name
  const Test* test = nullptr;
};

enum class StatementKind : std::uint8_t {
  text,
  output,
  set,        // target = expr
  set_block,  // target = the body through expr
  if_,        // branches; the last one may have no condition
  for_,       // target in expr if condition
  macro,      // name(params)
  call,       // expr with the body as caller(params)
  filter,     // the body through expr
  with,       // params are name = value
  generation,
  break_,
  continue_,
};

struct Statement;
using Body = std::vector<Statement>;

struct Param {
  std::string name;
  ExprPtr value;  // null: no default
};
struct Branch {
  ExprPtr condition;
  Body body;
};

struct Statement {
  StatementKind kind = StatementKind::text;
  std::uint32_t offset = 0;
  std::string text;  // or the name of a macro
  ExprPtr expr, target, condition;
  Body body, else_body;
  std::vector<Branch> branches;
  std::vector<Param> params;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;  // of a macro
};

}  // namespace onepass::llm::chat
