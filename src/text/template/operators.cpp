#include <cmath>

#include "text/template/interpreter.h"
#include "text/template/text.h"

namespace onepass::llm::chat {
namespace {

Error no_operator(std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  return make_error(ErrorCode::invalid_argument, "no operator " + std::string(op) + " for " +
                                                     a.type_name() + " and " + b.type_name());
}
Error overflow() { return make_error(ErrorCode::limit, "an integer does not fit in 64 bits"); }
Error zero_division() { return make_error(ErrorCode::invalid_argument, "division by zero"); }

std::int64_t floor_divide(std::int64_t a, std::int64_t b) noexcept {
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

Result<Value> power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent == 0) return Value(result);
    if (__builtin_mul_overflow(base, base, &base)) return overflow();
  }
}

Result<Value> integers(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &result)) return overflow();
  } else if (op == "-") {
    if (__builtin_sub_overflow(a, b, &result)) return overflow();
  } else if (op == "*") {
    if (__builtin_mul_overflow(a, b, &result)) return overflow();
  } else if (op == "**") {
    if (b >= 0) return power(a, b);
    if (a == 0) return zero_division();
    return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  } else {
    if (b == 0) return zero_division();
    if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
    if (b == -1) {  // the smallest integer has no positive twin
      if (op == "%") return Value(std::int64_t{0});
      if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) return overflow();
    } else {
      result = op == "//" ? floor_divide(a, b) : a - floor_divide(a, b) * b;
    }
  }
  return Value(result);
}

Result<Value> reals(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0.0) return zero_division();
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  double rest = std::fmod(a, b);
  if (rest != 0.0 && (rest < 0.0) != (b < 0.0)) rest += b;
  return Value(rest);
}

Result<Value> repeated(Interpreter& in, const Value& value, std::int64_t times) {
  const std::size_t n = times > 0 ? static_cast<std::size_t>(times) : 0;
  if (const Text* t = value.text()) {
    if (!t->bytes.empty() && n > in.limits().output_bytes / t->bytes.size()) {
      return fail(ErrorCode::limit, "a repeated text has more than " +
                                        std::to_string(in.limits().output_bytes) + " bytes");
    }
    ONEPASS_TRY(in.budget().pay_bytes(n * t->bytes.size()));
    std::string out;
    if (!t->bytes.empty()) out.reserve(n * t->bytes.size());
    for (std::size_t i = 0; i < n && !t->bytes.empty(); ++i) out += t->bytes;
    return in.text(std::move(out), t->markup);
  }
  const std::vector<Value>& items = value.seq()->items;
  if (!items.empty() && n > in.limits().range / items.size()) {
    return fail(ErrorCode::limit,
                "a repeated list has more than " + std::to_string(in.limits().range) + " items");
  }
  std::vector<Value> out;
  for (std::size_t i = 0; i < n && !items.empty(); ++i) {
    out.insert(out.end(), items.begin(), items.end());
  }
  return in.sequence(value.seq()->kind, std::move(out));
}

bool repeats(const Value& value) {
  return value.is_text() || value.is_kind(SequenceKind::list) || value.is_kind(SequenceKind::tuple);
}

Result<Value> added(Interpreter& in, const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) {
    const bool markup = a.text()->markup || b.text()->markup;
    const auto part = [&](const Value& v) {
      return markup && !v.text()->markup ? html_escaped(v.bytes()) : std::string(v.bytes());
    };
    ONEPASS_TRY(in.budget().pay_bytes(a.bytes().size() + b.bytes().size()));
    return in.text(part(a) + part(b), markup);
  }
  const Sequence *x = a.seq(), *y = b.seq();
  if (x == nullptr || y == nullptr || x->kind != y->kind ||
      (x->kind != SequenceKind::list && x->kind != SequenceKind::tuple)) {
    return no_operator("+", a, b);
  }
  ONEPASS_TRY(in.budget().pay(x->items.size() + y->items.size()));
  std::vector<Value> items = x->items;
  items.insert(items.end(), y->items.begin(), y->items.end());
  return in.sequence(x->kind, std::move(items));
}

// One bound of a slice; moved into the range that counts for its direction.
Result<std::int64_t> bound(const Value& value, std::int64_t fallback, std::int64_t n,
                           std::int64_t lowest, std::int64_t highest) {
  if (value.is_none()) return fallback;
  if (!value.is_integer()) {
    return fail(ErrorCode::invalid_argument,
                std::string("a slice needs integers, got ") + value.type_name());
  }
  std::int64_t at = value.as_integer();
  if (at < 0 && at < -n) at = -n - 1;
  if (at < 0) at += n;
  return std::min(std::max(at, lowest), highest);
}

}  // namespace

Result<Value> binary(Interpreter& interpreter, std::string_view op, const Value& a,
                     const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return integers(op, a.as_integer(), b.as_integer());
    return reals(op, a.as_real(), b.as_real());
  }
  if (op == "+") return added(interpreter, a, b);
  if (op == "*" && repeats(a) && b.is_integer()) return repeated(interpreter, a, b.as_integer());
  if (op == "*" && a.is_integer() && repeats(b)) return repeated(interpreter, b, a.as_integer());
  if (op == "%" && a.is_text()) {
    return fail(ErrorCode::unsupported, "formatting a str with % is not supported");
  }
  return no_operator(op, a, b);
}

Result<Value> negated(const Value& value) {
  if (value.is<double>()) return Value(-value.as_real());
  if (value.is_integer()) return integers("-", 0, value.as_integer());
  if (value.is_undefined()) return undefined_error(value);
  return fail(ErrorCode::invalid_argument, std::string("no sign for ") + value.type_name());
}

Result<bool> compared(Interpreter& interpreter, std::string_view op, const Value& a,
                      const Value& b) {
  Budget& budget = interpreter.budget();
  if (op == "==") return equal(a, b, budget);
  if (op == "!=" || op == "in" || op == "not in") {
    ONEPASS_ASSIGN(const bool holds, op == "!=" ? equal(a, b, budget) : contains(b, a, budget));
    return holds == (op == "in");
  }
  if (a.is_undefined() || b.is_undefined()) return no_operator(op, a, b);
  if (a.is_number() && b.is_number() && (std::isnan(a.as_real()) || std::isnan(b.as_real()))) {
    return false;
  }
  ONEPASS_ASSIGN(const int order, compare(a, b, budget));
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

Result<Value> sliced(Interpreter& interpreter, const Value& value, const Value& begin,
                     const Value& end, const Value& step) {
  if (value.is_undefined()) return undefined_error(value);
  const Text* t = value.text();
  const Sequence* s = value.seq();
  if (t == nullptr &&
      (s == nullptr || s->kind == SequenceKind::generator || s->kind == SequenceKind::view)) {
    return fail(ErrorCode::invalid_argument, std::string(value.type_name()) + " cannot be sliced");
  }
  ONEPASS_ASSIGN(const std::int64_t n, length_of(value));
  if (!step.is_none() && (!step.is_integer() || step.as_integer() == 0)) {
    return fail(ErrorCode::invalid_argument, "the step of a slice is an integer but not 0");
  }
  const std::int64_t by = step.is_none() ? 1 : step.as_integer();
  const bool up = by > 0;
  const std::int64_t lowest = up ? 0 : -1, highest = up ? n : n - 1;
  ONEPASS_ASSIGN(const std::int64_t from, bound(begin, up ? lowest : highest, n, lowest, highest));
  ONEPASS_ASSIGN(const std::int64_t to, bound(end, up ? highest : lowest, n, lowest, highest));

  Budget& budget = interpreter.budget();
  if (t != nullptr) {
    ONEPASS_TRY(budget.pay_bytes(t->bytes.size()));
    if (by == 1) {
      if (from >= to) return Value("");
      const std::size_t first = byte_of(t->bytes, static_cast<std::size_t>(from));
      const std::string_view rest = std::string_view(t->bytes).substr(first);
      return interpreter.text(
          std::string(rest.substr(0, byte_of(rest, static_cast<std::size_t>(to - from)))));
    }
  }
  std::vector<std::string_view> parts;
  if (t != nullptr) parts = code_points(t->bytes);
  std::vector<Value> items;
  std::string text;
  for (std::int64_t i = from; up ? i < to : i > to;) {
    if (t != nullptr) {
      text += parts[static_cast<std::size_t>(i)];
    } else {
      items.push_back(s->items[static_cast<std::size_t>(i)]);
    }
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  if (t != nullptr) return interpreter.text(std::move(text));
  return interpreter.sequence(s->kind, std::move(items));
}

}  // namespace onepass::llm::chat
