#include "text/template/lexer.h"

#include <algorithm>

#include "text/template/text.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm::chat {
namespace {

using text::char_flag::letter;
using text::char_flag::mark;
using text::char_flag::number;

constexpr std::string_view long_operators[] = {"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view short_operators = "+-/*%~()[]{}.:|,;=<>";

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) ONEPASS_TRY(text_and_tag());
    push(TokenKind::end, at_, {});
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const noexcept {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool starts(std::string_view word) const noexcept {
    return source_.substr(std::min(at_, source_.size())).starts_with(word);
  }
  void push(TokenKind kind, std::size_t offset, std::string text) {
    tokens_.push_back({kind, static_cast<std::uint32_t>(offset), std::move(text)});
  }
  tl::unexpected<Error> fail_at(std::size_t offset, std::string_view message,
                                const char* file = __builtin_FILE(),
                                int line = __builtin_LINE()) const {
    return tl::unexpected<Error>(error_at(source_, static_cast<std::uint32_t>(offset),
                                          ErrorCode::parse, message, file, line));
  }
  std::size_t behind_space(std::size_t at) const {
    return source_.size() - strip_left(source_.substr(at)).size();
  }

  // The place of the next {{, {% or {#.
  std::size_t find_tag() const noexcept {
    for (std::size_t at = source_.find('{', at_); at != source_.npos;
         at = source_.find('{', at + 1)) {
      const char c = at + 1 < source_.size() ? source_[at + 1] : ' ';
      if (c == '{' || c == '%' || c == '#') return at;
    }
    return source_.npos;
  }

  // Text in front of a tag whose sign is '-', '+' or something else.
  void push_data(std::size_t begin, std::size_t end, char sign, bool is_output) {
    std::string_view data = source_.substr(begin, end - begin);
    if (sign == '-') {
      data = strip_right(data);
    } else if (sign != '+' && !is_output) {
      const std::size_t line = data.rfind('\n') + 1;  // 0: no line end
      const bool starts_line = line > 0 || begin == 0 || source_[begin - 1] == '\n';
      if (starts_line && strip_left(data.substr(line)).empty()) data = data.substr(0, line);
    }
    if (!data.empty()) push(TokenKind::data, begin, std::string(data));
  }

  Status text_and_tag() {
    const std::size_t begin = at_;
    const std::size_t tag = find_tag();
    if (tag == source_.npos) {
      push(TokenKind::data, begin, std::string(source_.substr(begin)));
      at_ = source_.size();
      return {};
    }
    const char kind = source_[tag + 1];
    at_ = tag + 2;
    const char sign = peek() == '-' || peek() == '+' ? peek() : ' ';
    push_data(begin, tag, sign, kind == '{');
    if (sign != ' ') ++at_;
    if (kind == '#') return comment(tag);
    if (kind == '%' && raw_begin()) return raw(tag);
    const bool is_output = kind == '{';
    push(is_output ? TokenKind::output_begin : TokenKind::block_begin, tag, {});
    return inside(tag, is_output);
  }

  Status comment(std::size_t tag) {
    const std::size_t end = source_.find("#}", at_);
    if (end == source_.npos) return fail_at(tag, "the comment has no end, expected #}");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    at_ = end + 2;
    finish_block(sign);
    return {};
  }

  void finish_block(char sign) {
    if (sign == '-') {
      at_ = behind_space(at_);
    } else if (sign != '+' && peek() == '\n') {
      ++at_;
    }
  }

  // Reads `raw %}` behind {%.
  bool raw_begin() {
    std::size_t at = behind_space(at_);
    if (!source_.substr(at).starts_with("raw")) return false;
    at = behind_space(at + 3);
    const bool strip = source_.substr(at).starts_with("-%}");
    if (!strip && !source_.substr(at).starts_with("%}")) return false;
    at_ = strip ? behind_space(at + 3) : at + 2;
    return true;
  }

  Status raw(std::size_t tag) {
    const std::size_t begin = at_;
    for (std::size_t at = source_.find("{%", begin); at != source_.npos;
         at = source_.find("{%", at + 2)) {
      std::size_t word = at + 2;
      const char c = word < source_.size() ? source_[word] : ' ';
      const char sign = c == '-' || c == '+' ? c : ' ';
      word = behind_space(sign == ' ' ? word : word + 1);
      if (!source_.substr(word).starts_with("endraw")) continue;
      std::size_t end = behind_space(word + 6);
      char end_sign = ' ';
      if (end < source_.size() && (source_[end] == '-' || source_[end] == '+')) {
        end_sign = source_[end++];
      }
      if (!source_.substr(end).starts_with("%}")) continue;
      push_data(begin, at, sign, false);
      at_ = end + 2;
      finish_block(end_sign);
      return {};
    }
    return fail_at(tag, "the raw block has no end, expected {% endraw %}");
  }

  // True when the tag ended here.
  bool tag_end(bool is_output) {
    const std::string_view close = is_output ? "}}" : "%}";
    const char sign = peek() == '-' || (peek() == '+' && !is_output) ? peek() : ' ';
    if (sign != ' ') {
      if (!source_.substr(at_ + 1).starts_with(close)) return false;
    } else if (!starts(close)) {
      return false;
    }
    push(is_output ? TokenKind::output_end : TokenKind::block_end, at_, {});
    at_ += sign == ' ' ? 2 : 3;
    if (is_output) {
      if (sign == '-') at_ = behind_space(at_);
    } else {
      finish_block(sign);
    }
    return true;
  }

  Status inside(std::size_t tag, bool is_output) {
    std::string open;  // brackets
    while (true) {
      at_ = behind_space(at_);
      if (at_ >= source_.size()) {
        return fail_at(
            tag, is_output ? "the tag has no end, expected }}" : "the tag has no end, expected %}");
      }
      if (open.empty() && tag_end(is_output)) return {};
      const char c = peek();
      if (is_digit(c)) {
        ONEPASS_TRY(a_number());
      } else if (c == '\'' || c == '"') {
        ONEPASS_TRY(a_string());
      } else if (a_name()) {
        continue;
      } else {
        ONEPASS_TRY(an_operator(open));
      }
    }
  }

  bool a_name() {
    const std::size_t begin = at_;
    while (at_ < source_.size()) {
      const text::Char c = text::decode(source_.data() + at_, source_.data() + source_.size());
      const std::uint8_t flags = text::flags_of(c.value);
      const bool part = c.value == '_' || (flags & letter) != 0 ||
                        (at_ > begin && (flags & (mark | number)) != 0);
      if (!part) break;
      at_ += c.bytes;
    }
    if (at_ == begin) return false;
    push(TokenKind::name, begin, std::string(source_.substr(begin, at_ - begin)));
    return true;
  }

  std::string digits() {
    std::string out;
    while (is_digit(peek()) || (peek() == '_' && is_digit(peek(1)) && !out.empty())) {
      if (peek() != '_') out += peek();
      ++at_;
    }
    return out;
  }

  Status a_number() {
    const std::size_t begin = at_;
    if (peek() == '0' && std::string_view("bBoOxX").find(peek(1)) != std::string_view::npos &&
        peek(1) != '\0') {
      return fail_at(begin, "only decimal numbers are supported");
    }
    const bool behind_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::op &&
                            tokens_.back().text == "." && tokens_.back().offset + 1 == begin;
    std::string text = digits();
    bool real = false;
    if (!behind_dot && peek() == '.' && is_digit(peek(1))) {
      real = true;
      ++at_;
      text += "." + digits();
    }
    if (!behind_dot && (peek() == 'e' || peek() == 'E')) {
      const bool is_signed = peek(1) == '+' || peek(1) == '-';
      if (is_digit(peek(is_signed ? 2 : 1))) {
        real = true;
        text += 'e';
        ++at_;
        if (is_signed) text += source_[at_++];
        text += digits();
      }
    }
    if (!real && text.size() > 1 && text.find_first_not_of('0') != text.npos && text[0] == '0') {
      return fail_at(begin, "a number does not start with 0");
    }
    push(real ? TokenKind::real : TokenKind::integer, begin, std::move(text));
    return {};
  }

  Status a_string() {
    const std::size_t begin = at_;
    const char quote = source_[at_++];
    std::string out;
    while (true) {
      if (at_ >= source_.size()) return fail_at(begin, "the string has no end");
      const char c = source_[at_++];
      if (c == quote) break;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= source_.size()) return fail_at(begin, "the string has no end");
      ONEPASS_TRY(an_escape(out));
    }
    push(TokenKind::string, begin, std::move(out));
    return {};
  }

  Status an_escape(std::string& out) {
    const std::size_t begin = at_ - 1;
    const char c = source_[at_++];
    constexpr std::string_view letters = "abfnrtv\\'\"", codes = "\a\b\f\n\r\t\v\\'\"";
    if (const std::size_t i = letters.find(c); i != letters.npos) {
      out += codes[i];
      return {};
    }
    if (c == '\n') return {};
    std::uint32_t value = 0;
    if (c >= '0' && c <= '7') {
      value = static_cast<std::uint32_t>(c - '0');
      for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) {
        value = value * 8 + static_cast<std::uint32_t>(source_[at_++] - '0');
      }
    } else if (c == 'x' || c == 'u' || c == 'U') {
      for (int left = c == 'x' ? 2 : c == 'u' ? 4 : 8; left > 0; --left) {
        constexpr std::string_view hex = "0123456789abcdef";
        const char digit = peek();
        const char small = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit + 32) : digit;
        const std::size_t i = hex.find(small);
        if (i == hex.npos || digit == '\0') return fail_at(begin, "the escape needs more digits");
        value = value * 16 + static_cast<std::uint32_t>(i);
        ++at_;
      }
    } else if (c == 'N') {
      return fail_at(begin, "characters by name are not supported");
    } else {
      out += '\\';
      out += c;
      return {};
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      return fail_at(begin, "the escape is no character");
    }
    text::append_utf8(out, value);
    return {};
  }

  Status an_operator(std::string& open) {
    for (const std::string_view word : long_operators) {
      if (!starts(word)) continue;
      push(TokenKind::op, at_, std::string(word));
      at_ += 2;
      return {};
    }
    const char c = peek();
    if (c == '\0' || short_operators.find(c) == short_operators.npos) {
      return fail_at(
          at_,
          "unexpected character " +
              quoted(source_.substr(
                  at_, text::decode(source_.data() + at_, source_.data() + source_.size()).bytes)));
    }
    constexpr std::string_view openers = "([{", closers = ")]}";
    if (openers.find(c) != openers.npos) {
      open += c;
    } else if (const std::size_t i = closers.find(c); i != closers.npos) {
      if (open.empty() || open.back() != openers[i]) {
        return fail_at(at_, std::string("unexpected '") + c + "'");
      }
      open.pop_back();
    }
    push(TokenKind::op, at_++, std::string(1, c));
    return {};
  }

  std::string_view source_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

Result<std::vector<Token>> tokenize(std::string_view normalized_source) {
  return Lexer(normalized_source).run();
}

Error error_at(std::string_view source, std::uint32_t offset, ErrorCode code,
               std::string_view message, const char* file, int line) {
  const std::string_view before = source.substr(0, offset);
  const auto row = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t column = count_code_points(before.substr(before.rfind('\n') + 1)) + 1;
  return make_error(code,
                    "chat template, line " + std::to_string(row) + ", column " +
                        std::to_string(column) + ": " + std::string(message),
                    file, line);
}

}  // namespace onepass::llm::chat
