// Runs the tree of a template. One rendering each; the tree and the source must outlive it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/ast.h"
#include "text/template/limits.h"
#include "text/template/object.h"

namespace onepass::llm::chat {

class Interpreter {
 public:
  // now: seconds since 1970.
  Interpreter(std::string_view source, const ChatLimits& limits, std::int64_t now);

  // The name must outlive the interpreter.
  void define(std::string_view name, Value value);
  Result<std::string> run(const Body& body);

  // For filters, tests, methods and functions.
  Budget& budget() noexcept { return budget_; }
  const ChatLimits& limits() const noexcept { return limits_; }
  std::int64_t now() const noexcept { return now_; }
  // A text as a value, paid for; limit where it is too long.
  Result<Value> text(std::string bytes, bool markup = false);
  // Items as a value, paid for.
  Result<Value> sequence(SequenceKind kind, std::vector<Value> items);
  // value.name and value[key] as templates mean them: undefined where there is none.
  Result<Value> attribute(const Value& value, std::string_view name);
  Result<Value> item(const Value& value, const Value& key);
  Result<Value> call(const Value& callee, Args& args);
  template <class T>
  Result<T*> own(std::unique_ptr<T> object) {
    ONEPASS_TRY(budget_.pay(16));
    T* p = object.get();
    objects_.push_back(std::move(object));
    return p;
  }

 private:
  enum class Flow : std::uint8_t { next, leave_loop, next_round };

  // Statements.
  Result<Flow> run_body(const Body& body);
  Result<Flow> run_one(const Statement& s);
  Result<Flow> run_if(const Statement& s);
  Result<Flow> run_for(const Statement& s);
  Result<Flow> run_rounds(const Statement& s, Loop& loop);
  Result<Flow> run_scoped(const Body& body);
  Result<Flow> run_with(const Statement& s);
  Status run_call_block(const Statement& s);
  Result<std::string> captured_output(const Body& body);
  Result<Value> through_filters(const Expr& chain, Value input);
  Status assign(const Expr& target, Value value);
  Status write(std::string_view text);

  // Scopes.
  Result<Scope*> enter(Scope* parent);
  void leave(Scope* scope);
  Status set(std::string_view name, Value value);
  Result<Value> lookup(std::string_view name);
  Result<Macro*> make_macro(const Statement& definition);
  Result<Value> call_macro(const Macro& macro, Args& args);
  Status bind_params(const Macro& macro, Args& args);

  // Expressions.
  Result<Value> eval(const Expr& e);
  Result<Value> eval_kind(const Expr& e);
  Result<std::vector<Value>> eval_items(const Expr& e, std::size_t first = 0);
  Result<Args> eval_args(const Expr& e);
  Result<Value> eval_dict(const Expr& e);
  Result<Value> eval_slice(const Expr& e);
  Result<Value> eval_binary(const Expr& e);
  Result<Value> eval_compare(const Expr& e);
  Result<Value> eval_concat(const Expr& e);
  Result<Value> eval_call(const Expr& e);
  Result<Value> eval_filter(const Expr& e);
  Result<Value> eval_test(const Expr& e);

  // Tells where, once: at the innermost part that failed.
  Error located(Error error, std::uint32_t offset);

  std::string_view source_;
  ChatLimits limits_;
  std::int64_t now_;
  Budget budget_;
  std::vector<std::unique_ptr<Object>> objects_;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Scope*> free_scopes_;
  Scope* scope_ = nullptr;
  std::string* out_ = nullptr;
  Value captured_;
  std::uint32_t depth_ = 0, calls_ = 0;
  bool located_ = false;
};

// Python's operators.
Result<Value> binary(Interpreter& interpreter, std::string_view op, const Value& a, const Value& b);
Result<Value> negated(const Value& value);
Result<bool> compared(Interpreter& interpreter, std::string_view op, const Value& a,
                      const Value& b);
// value[begin:end:step]; none where left out.
Result<Value> sliced(Interpreter& interpreter, const Value& value, const Value& begin,
                     const Value& end, const Value& step);

// The method of this name; undefined where the type has none.
Value find_method(const Value& self, std::string_view name);
Result<Value> call_method(Interpreter& interpreter, const Method& method, Args& args);
// Null: there is no such function.
const Function* find_function(std::string_view name) noexcept;

// Why an undefined value cannot be used.
Error undefined_error(const Value& value, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE());

}  // namespace onepass::llm::chat
