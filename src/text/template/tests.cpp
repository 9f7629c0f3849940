#include "text/template/tests.h"

#include <cmath>

#include "text/template/filters.h"
#include "text/template/interpreter.h"
#include "text/template/text.h"

namespace onepass::llm::chat {
namespace {

Result<bool> parity(Interpreter& in, const Value& value, int wanted) {
  ONEPASS_ASSIGN(const Value rest, binary(in, "%", value, Value(2)));
  return rest.is_number() && rest.as_real() == wanted;
}

bool is_callable(const Value& value) {
  if (value.is<Method>() || value.is<const Function*>() || value.is_undefined()) return true;
  const auto* object = value.get<Object*>();
  return object != nullptr && (dynamic_cast<const Macro*>(*object) != nullptr ||
                               dynamic_cast<const Joiner*>(*object) != nullptr);
}

bool is_same(const Value& a, const Value& b) {
  if (a.is<bool>() || b.is<bool>()) {
    return a.is<bool>() && b.is<bool>() && truth(a) == truth(b);
  }
  if (a.seq() != nullptr || a.mapping() != nullptr || a.is_text()) {
    return a.seq() == b.seq() && a.mapping() == b.mapping() && a.text() == b.text();
  }
  Budget budget(100);
  return a.is_integer() == b.is_integer() && equal(a, b, budget).value_or(false);
}

template <char op>
Result<bool> ordered(Interpreter& in, const Value& v, const Args& a) {
  constexpr std::string_view text = op == 'l' ? "<" : op == 'L' ? "<=" : op == 'g' ? ">" : ">=";
  return compared(in, text, v, a.positional[0]);
}
Result<bool> equals(Interpreter& in, const Value& v, const Args& a) {
  return compared(in, "==", v, a.positional[0]);
}
Result<bool> differs(Interpreter& in, const Value& v, const Args& a) {
  return compared(in, "!=", v, a.positional[0]);
}
Result<bool> divisible(Interpreter& in, const Value& v, const Args& a) {
  ONEPASS_ASSIGN(const Value rest, binary(in, "%", v, a.positional[0]));
  return rest.is_number() && rest.as_real() == 0.0;
}
Result<bool> is_member(Interpreter& in, const Value& v, const Args& a) {
  return compared(in, "in", v, a.positional[0]);
}

bool is_sized(const Value& v) {
  return v.is_text() || v.mapping() != nullptr || v.is_undefined() ||
         (v.seq() != nullptr && v.seq()->kind != SequenceKind::generator);
}

using In = Interpreter;
constexpr Test table[] = {
    {"defined", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> { return !v.is_undefined(); }},
    {"undefined", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> { return v.is_undefined(); }},
    {"none", 0, [](In&, const Value& v, const Args&) -> Result<bool> { return v.is_none(); }},
    {"string", 0, [](In&, const Value& v, const Args&) -> Result<bool> { return v.is_text(); }},
    {"number", 0, [](In&, const Value& v, const Args&) -> Result<bool> { return v.is_number(); }},
    {"integer", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> { return v.is<std::int64_t>(); }},
    {"float", 0, [](In&, const Value& v, const Args&) -> Result<bool> { return v.is<double>(); }},
    {"boolean", 0, [](In&, const Value& v, const Args&) -> Result<bool> { return v.is<bool>(); }},
    {"true", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> { return v.is<bool>() && truth(v); }},
    {"false", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> { return v.is<bool>() && !truth(v); }},
    {"mapping", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> { return v.mapping() != nullptr; }},
    {"sequence", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> {
       return is_sized(v) && !v.is_kind(SequenceKind::view);
     }},
    {"iterable", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> {
       return is_sized(v) || v.seq() != nullptr;
     }},
    {"callable", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> { return is_callable(v); }},
    {"odd", 0, [](In& in, const Value& v, const Args&) { return parity(in, v, 1); }},
    {"even", 0, [](In& in, const Value& v, const Args&) { return parity(in, v, 0); }},
    {"lower", 0,
     [](In& in, const Value& v, const Args&) -> Result<bool> {
       ONEPASS_ASSIGN(const std::string text, to_text(v, in.budget()));
       return is_lower(text);
     }},
    {"upper", 0,
     [](In& in, const Value& v, const Args&) -> Result<bool> {
       ONEPASS_ASSIGN(const std::string text, to_text(v, in.budget()));
       return is_upper(text);
     }},
    {"escaped", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> {
       return v.is_text() && v.text()->markup;
     }},
    {"filter", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> {
       return find_filter(v.bytes()) != nullptr;
     }},
    {"test", 0,
     [](In&, const Value& v, const Args&) -> Result<bool> {
       return find_test(v.bytes()) != nullptr;
     }},
    {"sameas", 1,
     [](In&, const Value& v, const Args& a) -> Result<bool> {
       return is_same(v, a.positional[0]);
     }},
    {"divisibleby", 1, divisible},
    {"in", 1, is_member},
    {"eq", 1, equals},
    {"equalto", 1, equals},
    {"==", 1, equals},
    {"ne", 1, differs},
    {"!=", 1, differs},
    {"lt", 1, ordered<'l'>},
    {"lessthan", 1, ordered<'l'>},
    {"<", 1, ordered<'l'>},
    {"le", 1, ordered<'L'>},
    {"<=", 1, ordered<'L'>},
    {"gt", 1, ordered<'g'>},
    {"greaterthan", 1, ordered<'g'>},
    {">", 1, ordered<'g'>},
    {"ge", 1, ordered<'G'>},
    {">=", 1, ordered<'G'>},
};

}  // namespace

const Test* find_test(std::string_view name) noexcept {
  for (const Test& test : table) {
    if (name == test.name) return &test;
  }
  return nullptr;
}

Result<bool> apply_test(Interpreter& interpreter, const Test& test, const Value& input,
                        const Args& args) {
  if (args.positional.size() != test.n_args || !args.named.empty()) {
    return fail(ErrorCode::invalid_argument,
                std::string("test '") + test.name + "' takes " + std::to_string(test.n_args) +
                    " arguments, got " +
                    std::to_string(args.positional.size() + args.named.size()));
  }
  return test.apply(interpreter, input, args);
}

}  // namespace onepass::llm::chat
