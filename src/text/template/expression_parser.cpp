#include "text/template/expression_parser.h"

#include <charconv>
#include <cmath>
#include <initializer_list>

#include "text/template/filters.h"
#include "text/template/tests.h"
#include "text/template/text.h"

namespace onepass::llm::chat {
namespace {

constexpr std::string_view comparisons[] = {"==", "!=", "<", "<=", ">", ">="};

}  // namespace

Result<std::string> ExpressionParser::assignable() {
  const Token token = now();
  ONEPASS_ASSIGN(std::string text, expect_identifier());
  for (const std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
    if (text == word) return error(token.offset, "cannot assign to '" + text + "'");
  }
  return text;
}

Result<ExprPtr> ExpressionParser::targets() {
  const Nest nest(depth_);
  if (depth_ > max_depth_) return too_deep();
  const std::uint32_t offset = now().offset;
  std::vector<ExprPtr> parts;
  bool is_tuple = false;
  while (true) {
    if (take_op("(")) {
      ONEPASS_ASSIGN(ExprPtr inner, targets());
      ONEPASS_TRY(expect_op(")"));
      parts.push_back(std::move(inner));
    } else {
      ExprPtr part = make(ExprKind::name, now().offset);
      ONEPASS_ASSIGN(part->name, assignable());
      parts.push_back(std::move(part));
    }
    if (!take_op(",")) break;
    is_tuple = true;
    if (now().kind != TokenKind::name && !is_op("(")) break;
    if (is_name("in")) break;
  }
  if (!is_tuple) return std::move(parts.front());
  ExprPtr out = make(ExprKind::tuple, offset);
  for (ExprPtr& part : parts) ONEPASS_TRY(add(*out, std::move(part)));
  return out;
}

Result<ExprPtr> ExpressionParser::tuple(bool with_condition) {
  const std::uint32_t offset = now().offset;
  ONEPASS_ASSIGN(ExprPtr first, with_condition ? expression() : logical_or());
  if (!is_op(",")) return first;
  ExprPtr out = make(ExprKind::tuple, offset);
  ONEPASS_TRY(add(*out, std::move(first)));
  while (take_op(",")) {
    if (ends_tuple()) break;
    ONEPASS_ASSIGN(ExprPtr next, with_condition ? expression() : logical_or());
    ONEPASS_TRY(add(*out, std::move(next)));
  }
  return out;
}

bool ExpressionParser::ends_tuple() const noexcept {
  return now().kind == TokenKind::output_end || now().kind == TokenKind::block_end || is_op(")") ||
         is_name("if");
}

Result<ExprPtr> ExpressionParser::expression() {
  const Nest nest(depth_);
  if (depth_ > max_depth_) return too_deep();
  const std::uint32_t offset = now().offset;
  ONEPASS_ASSIGN(ExprPtr value, logical_or());
  while (take_name("if")) {
    const Nest soft(soft_);
    ExprPtr e = make(ExprKind::conditional, offset);
    ONEPASS_ASSIGN(ExprPtr condition, logical_or());
    ExprPtr other;
    if (take_name("else")) {
      ONEPASS_ASSIGN(other, expression());
    }
    ONEPASS_TRY(add(*e, std::move(condition)));
    ONEPASS_TRY(add(*e, std::move(value)));
    ONEPASS_TRY(add(*e, std::move(other)));
    value = std::move(e);
  }
  return value;
}

Result<ExprPtr> ExpressionParser::logical_or() {
  ONEPASS_ASSIGN(ExprPtr left, logical_and());
  while (is_name("or")) {
    const std::uint32_t offset = now().offset;
    advance();
    ONEPASS_ASSIGN(ExprPtr right, logical_and());
    ONEPASS_ASSIGN(left, joined(ExprKind::logical_or, offset, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::logical_and() {
  ONEPASS_ASSIGN(ExprPtr left, logical_not());
  while (is_name("and")) {
    const std::uint32_t offset = now().offset;
    advance();
    ONEPASS_ASSIGN(ExprPtr right, logical_not());
    ONEPASS_ASSIGN(left, joined(ExprKind::logical_and, offset, std::move(left), std::move(right)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::logical_not() {
  if (!is_name("not")) return comparison();
  const Nest nest(depth_);
  if (depth_ > max_depth_) return too_deep();
  ExprPtr e = make(ExprKind::logical_not, now().offset);
  advance();
  ONEPASS_ASSIGN(ExprPtr operand, logical_not());
  ONEPASS_TRY(add(*e, std::move(operand)));
  return e;
}

std::string ExpressionParser::comparison_operator() {
  if (now().kind == TokenKind::op) {
    for (const std::string_view op : comparisons) {
      if (take_op(op)) return std::string(op);
    }
  } else if (take_name("in")) {
    return "in";
  } else if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
    advance();
    advance();
    return "not in";
  }
  return {};
}

Result<ExprPtr> ExpressionParser::comparison() {
  ONEPASS_ASSIGN(ExprPtr left, chain(0));
  ExprPtr e;
  while (true) {
    const std::uint32_t offset = now().offset;
    std::string op = comparison_operator();
    if (op.empty()) break;
    ONEPASS_ASSIGN(ExprPtr right, chain(0));
    if (!e) {
      e = make(ExprKind::compare, offset);
      ONEPASS_TRY(add(*e, std::move(left)));
    }
    ONEPASS_TRY(add(*e, std::move(right)));
    e->ops.push_back(std::move(op));
  }
  if (e) return e;
  return left;
}

Result<ExprPtr> ExpressionParser::chain(int rank) {
  constexpr int n_ranks = 4;
  if (rank == n_ranks) return unary(true);
  ONEPASS_ASSIGN(ExprPtr left, chain(rank + 1));
  constexpr std::string_view ops[n_ranks][4] = {
      {"+", "-", "", ""}, {"~", "", "", ""}, {"*", "/", "//", "%"}, {"**", "", "", ""}};
  while (now().kind == TokenKind::op) {
    const auto* op = std::find(std::begin(ops[rank]), std::end(ops[rank]), now().text);
    if (op == std::end(ops[rank])) break;
    const std::uint32_t offset = now().offset;
    advance();
    ONEPASS_ASSIGN(ExprPtr right, chain(rank + 1));
    if (*op == "~" && left->kind == ExprKind::concat) {
      ONEPASS_TRY(add(*left, std::move(right)));
      continue;
    }
    ONEPASS_ASSIGN(left, joined(*op == "~" ? ExprKind::concat : ExprKind::binary, offset,
                                std::move(left), std::move(right), std::string(*op)));
  }
  return left;
}

Result<ExprPtr> ExpressionParser::unary(bool with_filters) {
  ExprPtr e;
  if (is_op("-") || is_op("+")) {
    const Nest nest(depth_);
    if (depth_ > max_depth_) return too_deep();
    e = make(is_op("-") ? ExprKind::negate : ExprKind::plus, now().offset);
    advance();
    ONEPASS_ASSIGN(ExprPtr operand, unary(false));
    ONEPASS_TRY(add(*e, std::move(operand)));
  } else {
    ONEPASS_ASSIGN(e, primary());
  }
  ONEPASS_ASSIGN(e, postfix(std::move(e)));
  if (!with_filters) return e;
  while (true) {
    if (is_op("|")) {
      ONEPASS_ASSIGN(e, filter_chain(std::move(e), true));
    } else if (is_name("is")) {
      ONEPASS_ASSIGN(e, a_test(std::move(e)));
    } else if (is_op("(")) {
      ONEPASS_ASSIGN(e, a_call(std::move(e)));
    } else {
      return e;
    }
  }
}

Result<ExprPtr> ExpressionParser::primary() {
  const Token token = now();
  advance();
  switch (token.kind) {
    case TokenKind::name:
      return a_name(token);
    case TokenKind::string: {
      std::string text = token.text;
      while (now().kind == TokenKind::string) {
        text += now().text;
        advance();
      }
      return make_constant(Value(std::move(text)), token.offset);
    }
    case TokenKind::integer: {
      std::int64_t value = 0;
      const char* end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
        return error(token.offset, "the number does not fit in 64 bits", ErrorCode::limit);
      }
      return make_constant(Value(value), token.offset);
    }
    case TokenKind::real: {
      const std::optional<double> value = read_real(token.text);
      if (!value || !std::isfinite(*value)) {
        return error(token.offset, "the number is out of range", ErrorCode::limit);
      }
      return make_constant(Value(*value), token.offset);
    }
    case TokenKind::op:
      if (token.text == "(") return parentheses(token.offset);
      if (token.text == "[") return a_list(token.offset);
      if (token.text == "{") return a_dict(token.offset);
      break;
    default:
      break;
  }
  return error(token.offset, "expected a value, got " + shown(token));
}

Result<ExprPtr> ExpressionParser::a_name(const Token& token) {
  const std::string& text = token.text;
  if (text == "true" || text == "True") return make_constant(Value(true), token.offset);
  if (text == "false" || text == "False") return make_constant(Value(false), token.offset);
  if (text == "none" || text == "None") return make_constant(Value(), token.offset);
  for (const std::string_view word : {"if", "else", "in", "not", "and", "or", "is"}) {
    if (text == word) return error(token.offset, "expected a value, got '" + text + "'");
  }
  flags_.varargs |= text == "varargs";
  flags_.kwargs |= text == "kwargs";
  flags_.caller |= text == "caller";
  ExprPtr e = make(ExprKind::name, token.offset);
  e->name = text;
  return e;
}

Result<ExprPtr> ExpressionParser::parentheses(std::uint32_t offset) {
  if (take_op(")")) return make(ExprKind::tuple, offset);
  ONEPASS_ASSIGN(ExprPtr e, tuple(true));
  ONEPASS_TRY(expect_op(")"));
  return e;
}

Result<ExprPtr> ExpressionParser::a_list(std::uint32_t offset) {
  ExprPtr e = make(ExprKind::list, offset);
  while (!take_op("]")) {
    if (!e->items.empty()) ONEPASS_TRY(expect_op(","));
    if (take_op("]")) break;
    ONEPASS_ASSIGN(ExprPtr item, expression());
    ONEPASS_TRY(add(*e, std::move(item)));
  }
  return e;
}

Result<ExprPtr> ExpressionParser::a_dict(std::uint32_t offset) {
  ExprPtr e = make(ExprKind::dict, offset);
  while (!take_op("}")) {
    if (!e->items.empty()) ONEPASS_TRY(expect_op(","));
    if (take_op("}")) break;
    ONEPASS_ASSIGN(ExprPtr key, expression());
    ONEPASS_TRY(expect_op(":"));
    ONEPASS_ASSIGN(ExprPtr value, expression());
    ONEPASS_TRY(add(*e, std::move(key)));
    ONEPASS_TRY(add(*e, std::move(value)));
  }
  return e;
}

Result<ExprPtr> ExpressionParser::postfix(ExprPtr e) {
  while (now().kind == TokenKind::op) {
    if (is_op(".")) {
      ONEPASS_ASSIGN(e, an_attribute(std::move(e)));
    } else if (is_op("[")) {
      ONEPASS_ASSIGN(e, a_subscript(std::move(e)));
    } else if (is_op("(")) {
      ONEPASS_ASSIGN(e, a_call(std::move(e)));
    } else {
      break;
    }
  }
  return e;
}

Result<ExprPtr> ExpressionParser::an_attribute(ExprPtr base) {
  advance();
  const Token token = now();
  if (token.kind == TokenKind::name) {
    advance();
    ExprPtr e = make(ExprKind::attribute, token.offset);
    e->name = token.text;
    ONEPASS_TRY(add(*e, std::move(base)));
    return e;
  }
  if (token.kind != TokenKind::integer) return expected("a name behind '.'");
  ONEPASS_ASSIGN(ExprPtr index, primary());
  return joined(ExprKind::item, token.offset, std::move(base), std::move(index));
}

Result<ExprPtr> ExpressionParser::a_subscript(ExprPtr base) {
  const std::uint32_t offset = now().offset;
  advance();
  ExprPtr parts[3];
  std::size_t n = 0;
  bool is_slice = false;
  while (true) {
    if (!is_op(":") && !is_op("]")) {
      if (parts[n]) return expected("']'");
      ONEPASS_ASSIGN(parts[n], expression());
    }
    if (take_op("]")) break;
    if (is_op(",")) {
      return error(now().offset, "several indices are not supported", ErrorCode::unsupported);
    }
    ONEPASS_TRY(expect_op(":"));
    is_slice = true;
    if (++n == 3) return error(offset, "a slice has at most three parts");
  }
  if (!is_slice && !parts[0]) return error(offset, "expected an index");
  ExprPtr e = make(is_slice ? ExprKind::slice : ExprKind::item, offset);
  ONEPASS_TRY(add(*e, std::move(base)));
  for (std::size_t i = 0; i < (is_slice ? 3u : 1u); ++i) ONEPASS_TRY(add(*e, std::move(parts[i])));
  return e;
}

Status ExpressionParser::arguments(Expr& call) {
  ONEPASS_TRY(expect_op("("));
  const auto grow = [&](const ExprPtr& part) -> Status {
    call.depth = std::max(call.depth, part->depth + 1);
    if (call.depth > max_tree()) return too_deep();
    return {};
  };
  bool first = true;
  while (!take_op(")")) {
    if (!std::exchange(first, false)) ONEPASS_TRY(expect_op(","));
    if (take_op(")")) break;
    const std::uint32_t offset = now().offset;
    const bool is_star = is_op("*"), is_star_star = is_op("**");
    if (is_star || is_star_star) {
      advance();
      ExprPtr& star = is_star ? call.star : call.star_star;
      if (star || call.star_star) return error(offset, "unexpected '*' in the arguments");
      ONEPASS_ASSIGN(star, expression());
      ONEPASS_TRY(grow(star));
    } else if (now().kind == TokenKind::name && ahead().kind == TokenKind::op &&
               ahead().text == "=") {
      std::string name = now().text;
      advance();
      advance();
      ONEPASS_ASSIGN(ExprPtr value, expression());
      ONEPASS_TRY(grow(value));
      call.keywords.emplace_back(std::move(name), std::move(value));
    } else {
      if (call.star || call.star_star || !call.keywords.empty()) {
        return error(offset, "an argument without a name behind one with a name");
      }
      ONEPASS_ASSIGN(ExprPtr value, expression());
      ONEPASS_TRY(add(call, std::move(value)));
    }
  }
  return {};
}

Result<ExprPtr> ExpressionParser::a_call(ExprPtr callee) {
  ExprPtr e = make(ExprKind::call, callee->offset);
  ONEPASS_TRY(add(*e, std::move(callee)));
  ONEPASS_TRY(arguments(*e));
  return e;
}

Result<std::string> ExpressionParser::dotted_name() {
  ONEPASS_ASSIGN(std::string name, expect_identifier());
  while (take_op(".")) {
    ONEPASS_ASSIGN(const std::string part, expect_identifier());
    name += "." + part;
  }
  return name;
}

Result<ExprPtr> ExpressionParser::filter_chain(ExprPtr input, bool with_bar) {
  while (!with_bar || is_op("|")) {
    if (with_bar) advance();
    with_bar = true;
    ExprPtr e = make(ExprKind::filter, now().offset);
    ONEPASS_ASSIGN(e->name, dotted_name());
    e->filter = find_filter(e->name);
    if (e->filter == nullptr && soft_ == 0) {
      return error(e->offset, "filter '" + e->name.substr(0, 40) + "' is not supported",
                   ErrorCode::unsupported);
    }
    ONEPASS_TRY(add(*e, std::move(input)));
    if (is_op("(")) ONEPASS_TRY(arguments(*e));
    input = std::move(e);
  }
  return input;
}

Result<ExprPtr> ExpressionParser::a_test(ExprPtr input) {
  const std::uint32_t offset = now().offset;
  advance();
  const bool negated = take_name("not");
  ExprPtr e = make(ExprKind::test, now().offset);
  ONEPASS_ASSIGN(e->name, dotted_name());
  e->test = find_test(e->name);
  if (e->test == nullptr && soft_ == 0) {
    return error(e->offset, "test '" + e->name.substr(0, 40) + "' is not supported",
                 ErrorCode::unsupported);
  }
  ONEPASS_TRY(add(*e, std::move(input)));
  if (is_op("(")) {
    ONEPASS_TRY(arguments(*e));
  } else if (test_takes_value()) {
    if (is_name("is")) return error(now().offset, "tests cannot be chained with 'is'");
    ONEPASS_ASSIGN(ExprPtr value, primary());
    ONEPASS_ASSIGN(value, postfix(std::move(value)));
    ONEPASS_TRY(add(*e, std::move(value)));
  }
  if (!negated) return e;
  ExprPtr out = make(ExprKind::logical_not, offset);
  ONEPASS_TRY(add(*out, std::move(e)));
  return out;
}

bool ExpressionParser::test_takes_value() const noexcept {
  switch (now().kind) {
    case TokenKind::string:
    case TokenKind::integer:
    case TokenKind::real:
      return true;
    case TokenKind::op:
      return now().text == "[" || now().text == "{";
    case TokenKind::name:
      return !is_name("else") && !is_name("or") && !is_name("and") && !is_name("if") &&
             !is_name("in") && !is_name("not");
    default:
      return false;
  }
}

}  // namespace onepass::llm::chat
