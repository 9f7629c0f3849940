#include "text/template/filters.h"
#include "text/template/interpreter.h"
#include "text/template/tests.h"

namespace onepass::llm::chat {

Result<Value> Interpreter::eval_kind(const Expr& e) {
  switch (e.kind) {
    case ExprKind::constant:
      return e.value;
    case ExprKind::name:
      return lookup(e.name);
    case ExprKind::captured:
      return captured_;
    case ExprKind::list:
    case ExprKind::tuple: {
      ONEPASS_ASSIGN(std::vector<Value> items, eval_items(e));
      return sequence(e.kind == ExprKind::list ? SequenceKind::list : SequenceKind::tuple,
                      std::move(items));
    }
    case ExprKind::dict:
      return eval_dict(e);
    case ExprKind::attribute: {
      ONEPASS_ASSIGN(const Value base, eval(*e.items[0]));
      return attribute(base, e.name);
    }
    case ExprKind::item: {
      ONEPASS_ASSIGN(const Value base, eval(*e.items[0]));
      ONEPASS_ASSIGN(const Value key, eval(*e.items[1]));
      return item(base, key);
    }
    case ExprKind::slice:
      return eval_slice(e);
    case ExprKind::call:
      return eval_call(e);
    case ExprKind::filter:
      return eval_filter(e);
    case ExprKind::test:
      return eval_test(e);
    case ExprKind::negate:
    case ExprKind::plus: {
      ONEPASS_ASSIGN(const Value value, eval(*e.items[0]));
      if (e.kind == ExprKind::negate || !value.is_number()) return negated(value);
      return value.is<bool>() ? Value(value.as_integer()) : value;
    }
    case ExprKind::logical_not: {
      ONEPASS_ASSIGN(const Value value, eval(*e.items[0]));
      return Value(!truth(value));
    }
    case ExprKind::logical_and:
    case ExprKind::logical_or: {
      ONEPASS_ASSIGN(Value value, eval(*e.items[0]));
      if (truth(value) == (e.kind == ExprKind::logical_or)) return value;
      return eval(*e.items[1]);
    }
    case ExprKind::binary:
      return eval_binary(e);
    case ExprKind::compare:
      return eval_compare(e);
    case ExprKind::concat:
      return eval_concat(e);
    case ExprKind::conditional: {
      ONEPASS_ASSIGN(const Value condition, eval(*e.items[0]));
      if (truth(condition)) return eval(*e.items[1]);
      if (e.items[2]) return eval(*e.items[2]);
      return Value::undefined("the inline if has no else and its condition is false");
    }
  }
  return fail(ErrorCode::internal, "unknown expression");
}

Result<std::vector<Value>> Interpreter::eval_items(const Expr& e, std::size_t first) {
  std::vector<Value> values;
  for (std::size_t i = first; i < e.items.size(); ++i) {
    ONEPASS_ASSIGN(Value value, eval(*e.items[i]));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Args> Interpreter::eval_args(const Expr& e) {
  Args args;
  ONEPASS_ASSIGN(args.positional, eval_items(e, 1));
  if (e.star) {
    ONEPASS_ASSIGN(const Value star, eval(*e.star));
    ONEPASS_ASSIGN(std::vector<Value> more, items_of(star, budget_));
    for (Value& value : more) args.positional.push_back(std::move(value));
  }
  for (const auto& [name, value] : e.keywords) {
    ONEPASS_ASSIGN(Value evaluated, eval(*value));
    args.named.emplace_back(name, std::move(evaluated));
  }
  if (e.star_star) {
    ONEPASS_ASSIGN(const Value more, eval(*e.star_star));
    const Dict* dict = more.mapping();
    if (dict == nullptr) return fail(ErrorCode::invalid_argument, "** needs a dict");
    ONEPASS_TRY(budget_.pay(dict->entries.size()));
    for (const auto& [name, value] : dict->entries) {
      if (!name.is_text()) return fail(ErrorCode::invalid_argument, "** needs keys of type str");
      args.named.emplace_back(std::string(name.bytes()), value);
    }
  }
  return args;
}

Result<Value> Interpreter::eval_dict(const Expr& e) {
  std::vector<std::pair<Value, Value>> entries;
  std::size_t other_keys = 0;
  for (std::size_t i = 0; i + 1 < e.items.size(); i += 2) {
    ONEPASS_ASSIGN(Value key, eval(*e.items[i]));
    ONEPASS_ASSIGN(Value value, eval(*e.items[i + 1]));
    if (!is_hashable(key)) return not_hashable(key);
    if (!key.is_text()) ++other_keys;
    entries.emplace_back(std::move(key), std::move(value));
  }
  ONEPASS_TRY(budget_.pay(entries.size() * (other_keys / 4 + 1)));
  return Value::dict(std::move(entries));
}

Result<Value> Interpreter::eval_slice(const Expr& e) {
  ONEPASS_ASSIGN(const Value base, eval(*e.items[0]));
  Value parts[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!e.items[i + 1]) continue;
    ONEPASS_ASSIGN(parts[i], eval(*e.items[i + 1]));
  }
  return sliced(*this, base, parts[0], parts[1], parts[2]);
}

Result<Value> Interpreter::eval_binary(const Expr& e) {
  ONEPASS_ASSIGN(const Value a, eval(*e.items[0]));
  ONEPASS_ASSIGN(const Value b, eval(*e.items[1]));
  return binary(*this, e.name, a, b);
}

Result<Value> Interpreter::eval_compare(const Expr& e) {
  ONEPASS_ASSIGN(Value left, eval(*e.items[0]));
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    ONEPASS_ASSIGN(Value right, eval(*e.items[i + 1]));
    ONEPASS_ASSIGN(const bool holds, compared(*this, e.ops[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::eval_concat(const Expr& e) {
  std::string out;
  for (const ExprPtr& part : e.items) {
    ONEPASS_ASSIGN(const Value value, eval(*part));
    ONEPASS_ASSIGN(const std::string piece, to_text(value, budget_));
    out += piece;
    if (out.size() > limits_.output_bytes) break;
  }
  return text(std::move(out));
}

Result<Value> Interpreter::eval_call(const Expr& e) {
  ONEPASS_ASSIGN(const Value callee, eval(*e.items[0]));
  ONEPASS_ASSIGN(Args args, eval_args(e));
  return call(callee, args);
}

Result<Value> Interpreter::eval_filter(const Expr& e) {
  if (e.filter == nullptr) {
    return fail(ErrorCode::unsupported, "filter '" + e.name.substr(0, 40) + "' is not supported");
  }
  ONEPASS_ASSIGN(const Value input, eval(*e.items[0]));
  ONEPASS_ASSIGN(Args args, eval_args(e));
  return e.filter->apply(*this, input, args);
}

Result<Value> Interpreter::eval_test(const Expr& e) {
  if (e.test == nullptr) {
    return fail(ErrorCode::unsupported, "test '" + e.name.substr(0, 40) + "' is not supported");
  }
  ONEPASS_ASSIGN(const Value input, eval(*e.items[0]));
  ONEPASS_ASSIGN(const Args args, eval_args(e));
  ONEPASS_ASSIGN(const bool holds, apply_test(*this, *e.test, input, args));
  return Value(holds);
}

}  // namespace onepass::llm::chat
