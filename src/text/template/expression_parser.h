// Expressions of templates, from tokens to trees.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/ast.h"
#include "text/template/lexer.h"

namespace onepass::llm::chat {

class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, std::vector<Token> tokens, std::uint32_t max_depth)
      : source_(source), tokens_(std::move(tokens)), max_depth_(max_depth) {}

 protected:
  struct Flags {
    bool varargs = false, kwargs = false, caller = false;
  };
  // Counts what is nested; the destructor leaves it again.
  class Nest {
   public:
    explicit Nest(std::uint32_t& depth) : depth_(depth) { ++depth_; }
    ~Nest() { --depth_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    std::uint32_t& depth_;
  };

  const Token& now() const noexcept { return tokens_[at_]; }
  const Token& ahead() const noexcept { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void advance() noexcept {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool is_op(std::string_view text) const noexcept {
    return now().kind == TokenKind::op && now().text == text;
  }
  bool is_name(std::string_view text) const noexcept {
    return now().kind == TokenKind::name && now().text == text;
  }
  bool take_op(std::string_view text) noexcept {
    const bool is = is_op(text);
    if (is) advance();
    return is;
  }
  bool take_name(std::string_view text) noexcept {
    const bool is = is_name(text);
    if (is) advance();
    return is;
  }

  Error error(std::uint32_t offset, std::string_view message, ErrorCode code = ErrorCode::parse,
              const char* file = __builtin_FILE(), int line = __builtin_LINE()) const {
    return error_at(source_, offset, code, message, file, line);
  }
  static std::string shown(const Token& token) {
    switch (token.kind) {
      case TokenKind::data:
        return "text";
      case TokenKind::output_begin:
        return "{{";
      case TokenKind::output_end:
        return "}}";
      case TokenKind::block_begin:
        return "{%";
      case TokenKind::block_end:
        return "%}";
      case TokenKind::end:
        return "the end of the template";
      case TokenKind::name:
      case TokenKind::string:
      case TokenKind::integer:
      case TokenKind::real:
      case TokenKind::op:
        break;
    }
    return "'" + token.text.substr(0, 40) + "'";
  }
  Error expected(std::string_view what, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) const {
    return error(now().offset, "expected " + std::string(what) + ", got " + shown(now()),
                 ErrorCode::parse, file, line);
  }
  Status expect_op(std::string_view text) {
    if (take_op(text)) return {};
    return expected("'" + std::string(text) + "'");
  }
  Status expect_block_end() {
    if (now().kind != TokenKind::block_end) return expected("%}");
    advance();
    return {};
  }
  Result<std::string> expect_identifier() {
    if (now().kind != TokenKind::name) return expected("a name");
    std::string text = now().text;
    advance();
    return text;
  }
  Error too_deep() const {
    return error(now().offset, "more than " + std::to_string(max_depth_) + " levels are nested",
                 ErrorCode::limit);
  }

  // Long chains lean to the left: their tree is deeper than what was nested in the text.
  std::uint32_t max_tree() const noexcept { return 4 * max_depth_; }

  ExprPtr make(ExprKind kind, std::uint32_t offset) const {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->offset = offset;
    return e;
  }
  ExprPtr make_constant(Value value, std::uint32_t offset) const {
    ExprPtr e = make(ExprKind::constant, offset);
    e->value = std::move(value);
    return e;
  }
  // Adds a part, which may be null; the tree must not become too deep.
  Status add(Expr& parent, ExprPtr part) {
    if (part) {
      parent.depth = std::max(parent.depth, part->depth + 1);
      if (parent.depth > max_tree()) return too_deep();
    }
    parent.items.push_back(std::move(part));
    return {};
  }
  Result<ExprPtr> joined(ExprKind kind, std::uint32_t offset, ExprPtr a, ExprPtr b,
                         std::string name = {}) {
    ExprPtr e = make(kind, offset);
    e->name = std::move(name);
    ONEPASS_TRY(add(*e, std::move(a)));
    ONEPASS_TRY(add(*e, std::move(b)));
    return e;
  }

  Result<std::string> assignable();
  // name | (targets), with commas between them
  Result<ExprPtr> targets();
  // One expression, or several with commas: a tuple.
  Result<ExprPtr> tuple(bool with_condition);
  bool ends_tuple() const noexcept;
  Result<ExprPtr> expression();
  Result<ExprPtr> logical_or();
  Result<ExprPtr> logical_and();
  Result<ExprPtr> logical_not();
  // Empty: no comparison follows. Takes its tokens.
  std::string comparison_operator();
  Result<ExprPtr> comparison();
  // Binary operators by rank: + - | ~ | * / // % | **; all of them group to the left.
  Result<ExprPtr> chain(int rank);
  Result<ExprPtr> unary(bool with_filters);
  Result<ExprPtr> primary();
  Result<ExprPtr> a_name(const Token& token);
  Result<ExprPtr> parentheses(std::uint32_t offset);
  Result<ExprPtr> a_list(std::uint32_t offset);
  Result<ExprPtr> a_dict(std::uint32_t offset);
  Result<ExprPtr> postfix(ExprPtr e);
  Result<ExprPtr> an_attribute(ExprPtr base);
  Result<ExprPtr> a_subscript(ExprPtr base);
  // The arguments behind a '(' that is still there.
  Status arguments(Expr& call);
  Result<ExprPtr> a_call(ExprPtr callee);
  Result<std::string> dotted_name();
  // | a | b(1) | ...; the first one without its bar unless `with_bar`.
  Result<ExprPtr> filter_chain(ExprPtr input, bool with_bar);
  Result<ExprPtr> a_test(ExprPtr input);
  bool test_takes_value() const noexcept;

  std::string_view source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::uint32_t max_depth_;
  std::uint32_t depth_ = 0;
  std::uint32_t soft_ = 0;   // inside of what may never be run: unknown filters are errors then
  std::uint32_t loops_ = 0;  // around here, in this macro
  Flags flags_;
};

}  // namespace onepass::llm::chat
