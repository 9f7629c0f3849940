#include "text/template/interpreter.h"

#include <algorithm>

#include "text/template/filters.h"
#include "text/template/lexer.h"
#include "text/template/tests.h"

namespace onepass::llm::chat {
namespace {

// Of the tree; a call of a macro takes about three.
constexpr std::uint32_t frames_per_level = 4;

class Level {
 public:
  explicit Level(std::uint32_t& depth) : depth_(depth) { ++depth_; }
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  std::uint32_t& depth_;
};

Value loop_attribute(const Loop& loop, std::string_view name) {
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto n = static_cast<std::int64_t>(loop.items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return n - index;
  if (name == "revindex0") return n - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == n;
  if (name == "length") return n;
  if (name == "depth") return 1;  // of recursive loops, which are not supported
  if (name == "depth0") return 0;
  if (name == "previtem") {
    return loop.index > 0 ? loop.items[loop.index - 1]
                          : Value::undefined("there is no previous item");
  }
  if (name == "nextitem") {
    return loop.index + 1 < loop.items.size() ? loop.items[loop.index + 1]
                                              : Value::undefined("there is no next item");
  }
  return Value::undefined("'loop' has no attribute '" + std::string(name) + "'");
}

}  // namespace

Error undefined_error(const Value& value, const char* file, int line) {
  const auto* undefined = value.get<Undefined>();
  std::string why = undefined != nullptr && undefined->why ? *undefined->why : "value is undefined";
  return make_error(ErrorCode::invalid_argument, std::move(why), file, line);
}

Interpreter::Interpreter(std::string_view source, const ChatLimits& limits, std::int64_t now)
    : source_(source), limits_(limits), now_(now), budget_(limits.steps) {
  scopes_.push_back(std::make_unique<Scope>());
  scope_ = scopes_.back().get();
}

void Interpreter::define(std::string_view name, Value value) {
  for (auto& [known, old] : scope_->variables) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  scope_->variables.emplace_back(name, std::move(value));
}

Result<std::string> Interpreter::run(const Body& body) {
  std::string out;
  out_ = &out;
  ONEPASS_ASSIGN(scope_, enter(scope_));
  ONEPASS_TRY(run_body(body));
  return out;
}

Error Interpreter::located(Error error, std::uint32_t offset) {
  if (located_) return error;
  located_ = true;
  return error_at(source_, offset, error.code, error.message, error.file, error.line);
}

Result<Value> Interpreter::text(std::string bytes, bool markup) {
  if (bytes.size() > limits_.output_bytes) {
    return fail(ErrorCode::limit, "a text has " + std::to_string(bytes.size()) +
                                      " bytes, at most " + std::to_string(limits_.output_bytes) +
                                      " are allowed");
  }
  ONEPASS_TRY(budget_.pay_bytes(bytes.size()));
  return Value(std::move(bytes), markup);
}

Result<Value> Interpreter::sequence(SequenceKind kind, std::vector<Value> items) {
  ONEPASS_TRY(budget_.pay(items.size() + 1));
  return Value::sequence(kind, std::move(items));
}

Status Interpreter::write(std::string_view text) {
  if (text.size() > limits_.output_bytes - out_->size()) {
    return fail(ErrorCode::limit,
                "the output has more than " + std::to_string(limits_.output_bytes) + " bytes");
  }
  ONEPASS_TRY(budget_.pay_bytes(text.size()));
  *out_ += text;
  return {};
}

Result<Scope*> Interpreter::enter(Scope* parent) {
  ONEPASS_TRY(budget_.pay(1));
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    scopes_.push_back(std::make_unique<Scope>());
    scope = scopes_.back().get();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

void Interpreter::leave(Scope* scope) {
  scope_ = scope->parent;
  if (scope->captured) return;
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

Status Interpreter::set(std::string_view name, Value value) {
  ONEPASS_TRY(budget_.pay(scope_->variables.size() / 16));
  for (auto& [known, old] : scope_->variables) {
    if (known == name) {
      old = std::move(value);
      return {};
    }
  }
  scope_->variables.emplace_back(name, std::move(value));
  return {};
}

Result<Value> Interpreter::lookup(std::string_view name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    ONEPASS_TRY(budget_.pay(scope->variables.size() / 16));
    for (const auto& [known, value] : scope->variables) {
      if (known == name) return value;
    }
  }
  if (const Function* function = find_function(name)) return Value(function);
  return Value::undefined("'" + std::string(name) + "' is undefined");
}

Result<Interpreter::Flow> Interpreter::run_body(const Body& body) {
  const Level level(depth_);
  if (depth_ > limits_.depth * frames_per_level) {
    return fail(ErrorCode::limit, "the template nests too deep");
  }
  for (const Statement& s : body) {
    ONEPASS_TRY(budget_.pay(1));
    Result<Flow> flow = run_one(s);
    if (!flow) return located(std::move(flow).error(), s.offset);
    if (*flow != Flow::next) return *flow;
  }
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::run_one(const Statement& s) {
  switch (s.kind) {
    case StatementKind::text:
      ONEPASS_TRY(write(s.text));
      return Flow::next;
    case StatementKind::output: {
      ONEPASS_ASSIGN(const Value value, eval(*s.expr));
      if (const Text* text = value.text()) {
        ONEPASS_TRY(write(text->bytes));
        return Flow::next;
      }
      ONEPASS_ASSIGN(const std::string text, to_text(value, budget_));
      ONEPASS_TRY(write(text));
      return Flow::next;
    }
    case StatementKind::set: {
      ONEPASS_ASSIGN(Value value, eval(*s.expr));
      ONEPASS_TRY(assign(*s.target, std::move(value)));
      return Flow::next;
    }
    case StatementKind::set_block:
    case StatementKind::filter: {
      ONEPASS_ASSIGN(std::string out, captured_output(s.body));
      ONEPASS_ASSIGN(Value input, text(std::move(out)));
      ONEPASS_ASSIGN(Value value, through_filters(*s.expr, std::move(input)));
      if (s.kind == StatementKind::set_block) {
        ONEPASS_TRY(assign(*s.target, std::move(value)));
        return Flow::next;
      }
      ONEPASS_ASSIGN(const std::string filtered, to_text(value, budget_));
      ONEPASS_TRY(write(filtered));
      return Flow::next;
    }
    case StatementKind::if_:
      return run_if(s);
    case StatementKind::for_:
      return run_for(s);
    case StatementKind::macro: {
      ONEPASS_ASSIGN(Macro* const macro, make_macro(s));
      ONEPASS_TRY(set(s.text, Value(static_cast<Object*>(macro))));
      return Flow::next;
    }
    case StatementKind::call:
      ONEPASS_TRY(run_call_block(s));
      return Flow::next;
    case StatementKind::with:
      return run_with(s);
    case StatementKind::generation:
      return run_scoped(s.body);
    case StatementKind::break_:
      return Flow::leave_loop;
    case StatementKind::continue_:
      return Flow::next_round;
  }
  return fail(ErrorCode::internal, "unknown statement");
}

Result<Interpreter::Flow> Interpreter::run_if(const Statement& s) {
  for (const Branch& branch : s.branches) {
    if (branch.condition) {
      ONEPASS_ASSIGN(const Value condition, eval(*branch.condition));
      if (!truth(condition)) continue;
    }
    return run_body(branch.body);
  }
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::run_scoped(const Body& body) {
  ONEPASS_ASSIGN(scope_, enter(scope_));
  Scope* const scope = scope_;
  Result<Flow> flow = run_body(body);
  leave(scope);
  return flow;
}

Result<Interpreter::Flow> Interpreter::run_for(const Statement& s) {
  ONEPASS_ASSIGN(const Value iterated, eval(*s.expr));
  ONEPASS_ASSIGN(std::vector<Value> items, items_of(iterated, budget_));
  if (s.condition) {
    std::vector<Value> kept;
    for (Value& item : items) {
      ONEPASS_ASSIGN(scope_, enter(scope_));
      Scope* const scope = scope_;
      ONEPASS_TRY(assign(*s.target, item));
      ONEPASS_ASSIGN(const Value keep, eval(*s.condition));
      leave(scope);
      if (truth(keep)) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) return run_scoped(s.else_body);
  ONEPASS_ASSIGN(Loop* const loop, own(std::make_unique<Loop>()));
  loop->items = std::move(items);
  Result<Flow> flow = run_rounds(s, *loop);
  loop->index = 0;
  loop->items = {};
  return flow;
}

Result<Interpreter::Flow> Interpreter::run_rounds(const Statement& s, Loop& loop) {
  for (; loop.index < loop.items.size(); ++loop.index) {
    ONEPASS_ASSIGN(scope_, enter(scope_));
    Scope* const scope = scope_;
    ONEPASS_TRY(set("loop", Value(static_cast<Object*>(&loop))));
    ONEPASS_TRY(assign(*s.target, loop.items[loop.index]));
    ONEPASS_ASSIGN(const Flow flow, run_body(s.body));
    leave(scope);
    if (flow == Flow::leave_loop) break;
  }
  return Flow::next;
}

Result<Interpreter::Flow> Interpreter::run_with(const Statement& s) {
  std::vector<Value> values;
  for (const Param& param : s.params) {
    ONEPASS_ASSIGN(Value value, eval(*param.value));
    values.push_back(std::move(value));
  }
  ONEPASS_ASSIGN(scope_, enter(scope_));
  Scope* const scope = scope_;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ONEPASS_TRY(set(s.params[i].name, std::move(values[i])));
  }
  Result<Flow> flow = run_body(s.body);
  leave(scope);
  return flow;
}

Status Interpreter::run_call_block(const Statement& s) {
  ONEPASS_ASSIGN(Macro* const caller, make_macro(s));
  ONEPASS_ASSIGN(const Value callee, eval(*s.expr->items[0]));
  ONEPASS_ASSIGN(Args args, eval_args(*s.expr));
  args.named.emplace_back("caller", Value(static_cast<Object*>(caller)));
  ONEPASS_ASSIGN(const Value value, call(callee, args));
  ONEPASS_ASSIGN(const std::string text, to_text(value, budget_));
  return write(text);
}

Result<std::string> Interpreter::captured_output(const Body& body) {
  std::string out;
  std::string* const outer = std::exchange(out_, &out);
  const Result<Flow> flow = run_scoped(body);
  out_ = outer;
  ONEPASS_TRY(flow);
  return out;
}

Result<Value> Interpreter::through_filters(const Expr& chain, Value input) {
  std::swap(captured_, input);
  Result<Value> value = eval(chain);
  std::swap(captured_, input);
  return value;
}

Status Interpreter::assign(const Expr& target, Value value) {
  if (target.kind == ExprKind::name) {
    return set(target.name, std::move(value));
  }
  if (target.kind == ExprKind::attribute) {
    ONEPASS_ASSIGN(const Value space, lookup(target.items[0]->name));
    auto* const* object = space.get<Object*>();
    auto* names = object == nullptr ? nullptr : dynamic_cast<Namespace*>(*object);
    if (names == nullptr) {
      return fail(ErrorCode::invalid_argument,
                  "'" + target.items[0]->name + "' is no namespace, its attributes cannot be set");
    }
    ONEPASS_TRY(budget_.pay(names->attributes.size() / 16 + 1));
    for (auto& [name, old] : names->attributes) {
      if (name == target.name) {
        old = std::move(value);
        return {};
      }
    }
    names->attributes.emplace_back(target.name, std::move(value));
    return {};
  }
  ONEPASS_ASSIGN(std::vector<Value> values, items_of(value, budget_));
  if (values.size() != target.items.size()) {
    return fail(ErrorCode::invalid_argument, "cannot unpack " + std::to_string(values.size()) +
                                                 " values to " +
                                                 std::to_string(target.items.size()) + " names");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    ONEPASS_TRY(assign(*target.items[i], std::move(values[i])));
  }
  return {};
}

Result<Macro*> Interpreter::make_macro(const Statement& definition) {
  ONEPASS_ASSIGN(Macro* const macro, own(std::make_unique<Macro>()));
  macro->definition = &definition;
  macro->scope = scope_;
  for (Scope* s = scope_; s != nullptr && !s->captured; s = s->parent) s->captured = true;
  return macro;
}

Status Interpreter::bind_params(const Macro& macro, Args& args) {
  const Statement& m = *macro.definition;
  std::vector<std::pair<Value, Value>> more_named;
  std::vector<Value> more(args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                        m.params.size(), args.positional.size())),
                          args.positional.end());
  if (!more.empty() && !m.uses_varargs) {
    return fail(ErrorCode::invalid_argument,
                "macro '" + m.text + "' takes " + std::to_string(m.params.size()) +
                    " arguments, got " + std::to_string(args.positional.size()));
  }
  std::vector<std::optional<Value>> given(m.params.size());
  std::optional<Value> caller;
  for (std::size_t i = 0; i < std::min(m.params.size(), args.positional.size()); ++i) {
    given[i] = args.positional[i];
  }
  for (auto& [name, value] : args.named) {
    const auto param = std::find_if(m.params.begin(), m.params.end(),
                                    [&n = name](const Param& p) { return p.name == n; });
    const auto i = static_cast<std::size_t>(param - m.params.begin());
    if (param != m.params.end()) {
      if (given[i]) {
        return fail(ErrorCode::invalid_argument,
                    "macro '" + m.text + "' got argument '" + name + "' twice");
      }
      given[i] = std::move(value);
    } else if (name == "caller" && m.uses_caller) {
      caller = std::move(value);
    } else if (m.uses_kwargs) {
      more_named.emplace_back(Value(name), std::move(value));
    } else {
      return fail(ErrorCode::invalid_argument,
                  "macro '" + m.text + "' has no argument '" + name + "'");
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Param& param = m.params[i];
    Value value = Value::undefined("parameter '" + param.name + "' was not given");
    if (given[i]) {
      value = std::move(*given[i]);
    } else if (param.value) {
      ONEPASS_ASSIGN(value, eval(*param.value));
    }
    ONEPASS_TRY(set(param.name, std::move(value)));
  }
  if (m.uses_varargs) ONEPASS_TRY(set("varargs", Value::tuple(std::move(more))));
  if (m.uses_kwargs) ONEPASS_TRY(set("kwargs", Value::dict(std::move(more_named))));
  if (!m.uses_caller) return {};
  return set("caller", caller ? std::move(*caller) : Value::undefined("there is no caller"));
}

Result<Value> Interpreter::call_macro(const Macro& macro, Args& args) {
  const Level level(calls_);
  if (calls_ > limits_.depth) {
    return fail(ErrorCode::limit,
                "more than " + std::to_string(limits_.depth) + " calls are nested");
  }
  ONEPASS_TRY(budget_.pay(macro.definition->params.size() + 4));
  Scope* const outer = scope_;
  ONEPASS_ASSIGN(Scope* const scope, enter(macro.scope));
  scope_ = scope;
  ONEPASS_TRY(bind_params(macro, args));
  ONEPASS_ASSIGN(std::string out, captured_output(macro.definition->body));
  leave(scope);
  scope_ = outer;
  return text(std::move(out));
}

Result<Value> Interpreter::call(const Value& callee, Args& args) {
  if (callee.is_undefined()) return undefined_error(callee);
  if (const auto* function = callee.get<const Function*>()) return (*function)->call(*this, args);
  if (const auto* method = callee.get<Method>()) return call_method(*this, *method, args);
  if (const auto* object = callee.get<Object*>()) {
    if (const auto* macro = dynamic_cast<const Macro*>(*object)) return call_macro(*macro, args);
    if (auto* joiner = dynamic_cast<Joiner*>(*object)) {
      return std::exchange(joiner->used, true) ? joiner->separator : Value("");
    }
  }
  return fail(ErrorCode::invalid_argument, std::string(callee.type_name()) + " cannot be called");
}

Result<Value> Interpreter::attribute(const Value& value, std::string_view name) {
  if (value.is_undefined()) return undefined_error(value);
  if (const auto* object = value.get<Object*>()) {
    if (const auto* names = dynamic_cast<const Namespace*>(*object)) {
      ONEPASS_TRY(budget_.pay(names->attributes.size() / 16));
      for (const auto& [known, attribute] : names->attributes) {
        if (known == name) return attribute;
      }
    } else if (const auto* loop = dynamic_cast<const Loop*>(*object)) {
      if (name == "cycle" || name == "changed") return find_method(value, name);
      return loop_attribute(*loop, name);
    }
  }
  Value method = find_method(value, name);
  if (!method.is_undefined()) return method;
  if (const Dict* dict = value.mapping()) {
    ONEPASS_TRY(budget_.pay(dict->entries.size() / 4));
    if (const Value* found = dict->find(name)) return *found;
  }
  return method;
}

Result<Value> Interpreter::item(const Value& value, const Value& key) {
  if (value.is_undefined()) return undefined_error(value);
  if (const Dict* dict = value.mapping()) {
    ONEPASS_TRY(budget_.pay(dict->entries.size() / 4));
    for (const auto& [known, found] : dict->entries) {
      if (known.is_text() != key.is_text()) continue;
      ONEPASS_ASSIGN(const bool same, equal(known, key, budget_));
      if (same) return found;
    }
  }
  const Sequence* s = value.seq();
  const bool indexed = value.is_text() || (s != nullptr && s->kind != SequenceKind::generator &&
                                           s->kind != SequenceKind::view);
  if (indexed && key.is_integer()) {
    ONEPASS_ASSIGN(const std::int64_t n, length_of(value));
    const std::int64_t index = key.as_integer() < 0 ? key.as_integer() + n : key.as_integer();
    if (index >= 0 && index < n) {
      if (s != nullptr) return s->items[static_cast<std::size_t>(index)];
      return sliced(*this, value, Value(index), Value(index + 1), Value());
    }
  }
  if (key.is_text()) {
    if (value.is<Object*>()) return attribute(value, key.bytes());
    return find_method(value, key.bytes());
  }
  ONEPASS_ASSIGN(const std::string shown, to_repr(key, budget_));
  return Value::undefined(std::string(value.type_name()) + " has no element " +
                          shown.substr(0, 80));
}

Result<Value> Interpreter::eval(const Expr& e) {
  const Level level(depth_);
  if (depth_ > limits_.depth * frames_per_level) {
    return located(make_error(ErrorCode::limit, "the template nests too deep"), e.offset);
  }
  Status paid = budget_.pay(1);
  if (!paid) return located(std::move(paid).error(), e.offset);
  Result<Value> value = eval_kind(e);
  if (!value) return located(std::move(value).error(), e.offset);
  if (value->depth() > limits_.depth) {
    return located(make_error(ErrorCode::limit, "a value holds more than " +
                                                    std::to_string(limits_.depth) + " levels"),
                   e.offset);
  }
  return value;
}

}  // namespace onepass::llm::chat
