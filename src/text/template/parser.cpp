#include "text/template/parser.h"

#include <algorithm>
#include <initializer_list>

#include "text/template/expression_parser.h"

namespace onepass::llm::chat {
namespace {

// Jinja has them, chat templates do not.
constexpr std::string_view unsupported_tags[] = {"include", "import",     "from", "extends",
                                                 "block",   "autoescape", "do",   "trans",
                                                 "debug",   "pluralize"};

class Parser : ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Result<Body> run() {
    std::string ended_by;
    return body({}, ended_by);
  }

 private:
  // Statements up to one of `ends`, whose name is taken too; none: up to the end.
  Result<Body> body(std::initializer_list<std::string_view> ends, std::string& ended_by) {
    const Nest nest(depth_);
    if (depth_ > max_depth_) return too_deep();
    Body out;
    while (true) {
      const Token& token = now();
      switch (token.kind) {
        case TokenKind::end:
          if (ends.size() == 0) return out;
          return expected("{% " + std::string(*ends.begin()) + " %}");
        case TokenKind::data: {
          Statement s;
          s.offset = token.offset;
          s.text = token.text;
          out.push_back(std::move(s));
          advance();
          break;
        }
        case TokenKind::output_begin: {
          Statement s;
          s.kind = StatementKind::output;
          s.offset = token.offset;
          advance();
          ONEPASS_ASSIGN(s.expr, tuple(true));
          if (now().kind != TokenKind::output_end) return expected("}}");
          advance();
          out.push_back(std::move(s));
          break;
        }
        default: {  // block_begin
          advance();
          if (now().kind != TokenKind::name) return expected("the name of a tag");
          for (const std::string_view end : ends) {
            if (take_name(end)) {
              ended_by = end;
              return out;
            }
          }
          ONEPASS_ASSIGN(Statement s, statement());
          out.push_back(std::move(s));
        }
      }
    }
  }
  // A body with one possible end, and the %} in front of and behind it.
  Result<Body> whole_body(std::string_view end) {
    ONEPASS_TRY(expect_block_end());
    std::string ended_by;
    ONEPASS_ASSIGN(Body out, body({end}, ended_by));
    ONEPASS_TRY(expect_block_end());
    return out;
  }

  // As whole_body, where no loop can be left.
  Result<Body> captured_body(std::string_view end) {
    const std::uint32_t loops = std::exchange(loops_, 0);
    Result<Body> out = whole_body(end);
    loops_ = loops;
    return out;
  }

  Result<Statement> statement() {
    const Token token = now();
    advance();
    Statement s;
    s.offset = token.offset;
    const std::string& tag = token.text;
    if (tag == "if") {
      ONEPASS_TRY(an_if(s));
    } else if (tag == "for") {
      ONEPASS_TRY(a_for(s));
    } else if (tag == "set") {
      ONEPASS_TRY(a_set(s));
    } else if (tag == "macro") {
      ONEPASS_TRY(a_macro(s));
    } else if (tag == "call") {
      ONEPASS_TRY(a_call_block(s));
    } else if (tag == "filter") {
      s.kind = StatementKind::filter;
      ONEPASS_ASSIGN(s.expr, filter_chain(make(ExprKind::captured, s.offset), false));
      ONEPASS_ASSIGN(s.body, captured_body("endfilter"));
    } else if (tag == "with") {
      ONEPASS_TRY(a_with(s));
    } else if (tag == "generation") {
      s.kind = StatementKind::generation;
      ONEPASS_ASSIGN(s.body, whole_body("endgeneration"));
    } else if (tag == "break" || tag == "continue") {
      if (loops_ == 0) return error(s.offset, "'" + tag + "' outside of a loop");
      s.kind = tag == "break" ? StatementKind::break_ : StatementKind::continue_;
      ONEPASS_TRY(expect_block_end());
    } else if (std::find(std::begin(unsupported_tags), std::end(unsupported_tags), tag) !=
               std::end(unsupported_tags)) {
      return error(s.offset, "tag '" + tag + "' is not supported", ErrorCode::unsupported);
    } else {
      return error(s.offset, "unknown tag '" + tag.substr(0, 40) + "'", ErrorCode::unsupported);
    }
    return s;
  }

  Status an_if(Statement& s) {
    s.kind = StatementKind::if_;
    const Nest soft(soft_);
    std::string ended_by = "elif";
    while (ended_by != "endif") {
      Branch branch;
      if (ended_by == "elif") {
        ONEPASS_ASSIGN(branch.condition, tuple(false));
      }
      ONEPASS_TRY(expect_block_end());
      if (ended_by == "elif") {
        ONEPASS_ASSIGN(branch.body, body({"endif", "elif", "else"}, ended_by));
      } else {
        ONEPASS_ASSIGN(branch.body, body({"endif"}, ended_by));
      }
      s.branches.push_back(std::move(branch));
    }
    return expect_block_end();
  }

  Status a_for(Statement& s) {
    s.kind = StatementKind::for_;
    ONEPASS_ASSIGN(s.target, targets());
    if (!take_name("in")) return expected("'in'");
    ONEPASS_ASSIGN(s.expr, tuple(false));
    if (take_name("if")) {
      ONEPASS_ASSIGN(s.condition, expression());
    }
    if (is_name("recursive")) {
      return error(now().offset, "recursive loops are not supported", ErrorCode::unsupported);
    }
    ONEPASS_TRY(expect_block_end());
    std::string ended_by;
    {
      const Nest nest(loops_);
      ONEPASS_ASSIGN(s.body, body({"endfor", "else"}, ended_by));
    }
    if (ended_by == "else") {
      ONEPASS_ASSIGN(s.else_body, whole_body("endfor"));
      return {};
    }
    return expect_block_end();
  }

  Status a_set(Statement& s) {
    if (now().kind == TokenKind::name && ahead().kind == TokenKind::op && ahead().text == ".") {
      ExprPtr space = make(ExprKind::name, now().offset);
      ONEPASS_ASSIGN(space->name, expect_identifier());
      advance();
      s.target = make(ExprKind::attribute, space->offset);
      ONEPASS_ASSIGN(s.target->name, expect_identifier());
      ONEPASS_TRY(add(*s.target, std::move(space)));
    } else {
      ONEPASS_ASSIGN(s.target, targets());
    }
    if (take_op("=")) {
      s.kind = StatementKind::set;
      ONEPASS_ASSIGN(s.expr, tuple(true));
      return expect_block_end();
    }
    s.kind = StatementKind::set_block;
    s.expr = make(ExprKind::captured, s.offset);
    if (is_op("|")) {
      ONEPASS_ASSIGN(s.expr, filter_chain(std::move(s.expr), true));
    }
    ONEPASS_ASSIGN(s.body, captured_body("endset"));
    return {};
  }

  Status params(std::vector<Param>& out) {
    ONEPASS_TRY(expect_op("("));
    while (!take_op(")")) {
      if (!out.empty()) ONEPASS_TRY(expect_op(","));
      if (take_op(")")) break;
      const std::uint32_t offset = now().offset;
      Param param;
      ONEPASS_ASSIGN(param.name, assignable());
      if (take_op("=")) {
        ONEPASS_ASSIGN(param.value, expression());
      } else if (!out.empty() && out.back().value) {
        return error(offset, "parameter '" + param.name + "' needs a default as the one before");
      }
      out.push_back(std::move(param));
    }
    return {};
  }

  Status macro_body(Statement& s, std::string_view end) {
    const Flags outer = flags_;
    flags_ = {};
    ONEPASS_ASSIGN(s.body, captured_body(end));
    s.uses_varargs = flags_.varargs;
    s.uses_kwargs = flags_.kwargs;
    s.uses_caller = flags_.caller;
    flags_.varargs |= outer.varargs;  // what is used inside counts for those around it too
    flags_.kwargs |= outer.kwargs;
    flags_.caller |= outer.caller;
    return {};
  }

  Status a_macro(Statement& s) {
    s.kind = StatementKind::macro;
    ONEPASS_ASSIGN(s.text, assignable());
    ONEPASS_TRY(params(s.params));
    return macro_body(s, "endmacro");
  }

  Status a_call_block(Statement& s) {
    s.kind = StatementKind::call;
    s.text = "caller";
    if (is_op("(")) ONEPASS_TRY(params(s.params));
    const std::uint32_t offset = now().offset;
    ONEPASS_ASSIGN(s.expr, expression());
    if (s.expr->kind != ExprKind::call) return error(offset, "expected a call");
    return macro_body(s, "endcall");
  }

  Status a_with(Statement& s) {
    s.kind = StatementKind::with;
    while (now().kind != TokenKind::block_end) {
      if (!s.params.empty()) ONEPASS_TRY(expect_op(","));
      Param param;
      ONEPASS_ASSIGN(param.name, assignable());
      ONEPASS_TRY(expect_op("="));
      ONEPASS_ASSIGN(param.value, expression());
      s.params.push_back(std::move(param));
    }
    ONEPASS_ASSIGN(s.body, whole_body("endwith"));
    return {};
  }
};

}  // namespace

Result<Body> parse_template(std::string_view source, std::uint32_t max_depth) {
  ONEPASS_ASSIGN(std::vector<Token> tokens, tokenize(source));
  return Parser(source, std::move(tokens), max_depth).run();
}

}  // namespace onepass::llm::chat
