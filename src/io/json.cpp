#include "io/json.h"

#include "io/numbers.h"
#include "io/reader.h"

namespace onepass::io {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3f));
    }
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

}  // namespace

const char* name(JsonKind kind) noexcept {
  constexpr const char* names[] = {"null", "boolean", "number", "string", "array", "object"};
  return names[static_cast<std::size_t>(kind)];
}

char JsonReader::peek() noexcept {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
  return at_ < text_.size() ? text_[at_] : '\0';
}

std::uint64_t JsonReader::offset() noexcept {
  peek();
  return base_ + at_;
}

tl::unexpected<Error> JsonReader::fail_here(std::string message, std::string_view field,
                                            ErrorCode code, const char* file, int line) {
  return fail_at(code, std::move(message), base_ + at_, clipped(field), file, line);
}

tl::unexpected<Error> JsonReader::unexpected(const char* expected, std::string_view field) {
  const char c = peek();
  std::string got = "the end";
  if (at_ < text_.size()) {
    constexpr char hex[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    got = byte > 0x20 && byte < 0x7f ? std::string{'\'', c, '\''}
                                     : std::string{'0', 'x', hex[byte >> 4], hex[byte & 15]};
  }
  return fail_here("JSON: " + got + ", expected " + expected, field);
}

Result<JsonKind> JsonReader::kind(std::string_view field) {
  const char c = peek();
  if (c == '{') return JsonKind::object;
  if (c == '[') return JsonKind::array;
  if (c == '"') return JsonKind::string;
  if (c == '-' || is_digit(c)) return JsonKind::number;
  if (c == 't' || c == 'f') return JsonKind::boolean;
  if (c == 'n') return JsonKind::null;
  return unexpected("a value", field);
}

Status JsonReader::open(char bracket, const char* what, std::string_view field) {
  if (peek() != bracket) return unexpected(what, field);
  if (depth_ == max_depth_) {
    return fail_here("JSON: nested deeper than " + std::to_string(max_depth_), field,
                     ErrorCode::limit);
  }
  ++at_;
  ++depth_;
  first_ = true;
  return {};
}

Status JsonReader::begin_object(std::string_view field) { return open('{', "an object", field); }
Status JsonReader::begin_array(std::string_view field) { return open('[', "an array", field); }

Result<bool> JsonReader::next(char close, std::string_view field) {
  const char c = peek();
  if (c == close) {
    ++at_;
    --depth_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (c != ',') return unexpected(close == '}' ? "',' or '}'" : "',' or ']'", field);
    ++at_;
  }
  first_ = false;
  return true;
}

Result<std::optional<std::string_view>> JsonReader::next_key(std::string_view field) {
  ONEPASS_ASSIGN(const bool more, next('}', field));
  if (!more) return std::optional<std::string_view>();
  if (peek() != '"') return unexpected("a key", field);
  ONEPASS_ASSIGN(const std::string_view key, string(field));
  if (peek() != ':') return unexpected("':'", field);
  ++at_;
  return std::optional(key);
}

Result<bool> JsonReader::next_item(std::string_view field) { return next(']', field); }

Result<std::string_view> JsonReader::string(std::string_view field) {
  if (peek() != '"') return unexpected("a string", field);
  const std::size_t begin = ++at_;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\\') return decode(begin, field);
    if (static_cast<unsigned char>(c) < 0x20) {
      return fail_here("JSON: a control character in a string", field);
    }
    if (c != '"') continue;
    const std::string_view part = text_.substr(begin, at_ - begin);
    if (!is_utf8(part)) return fail_here("JSON: a string is not UTF-8", field);
    ++at_;
    return part;
  }
  return fail_here("JSON: a string without end", field);
}

Result<std::uint32_t> JsonReader::hex4(std::string_view field) {
  std::uint32_t code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const int digit = is_digit(c)              ? c - '0'
                      : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                      : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                               : -1;
    if (digit < 0) return fail_here("JSON: \\u needs four hexadecimal digits", field);
    code = code * 16 + static_cast<std::uint32_t>(digit);
  }
  return code;
}

// at_ is at the first backslash.
Result<std::string_view> JsonReader::decode(std::size_t begin, std::string_view field) {
  std::string out(text_.substr(begin, at_ - begin));
  while (at_ < text_.size() && text_[at_] != '"') {
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) {
      return fail_here("JSON: a control character in a string", field);
    }
    ++at_;
    if (c != '\\') {
      out += c;
      continue;
    }
    const char escape = at_ < text_.size() ? text_[at_++] : '\0';
    constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (const std::size_t k = from.find(escape); k != from.npos) {
      out += to[k];
      continue;
    }
    if (escape != 'u') return fail_here("JSON: an unknown escape in a string", field);
    ONEPASS_ASSIGN(std::uint32_t code, hex4(field));
    if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      ONEPASS_ASSIGN(const std::uint32_t low, hex4(field));
      if (low < 0xdc00 || low > 0xdfff) return fail_here("JSON: half a surrogate pair", field);
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code <= 0xdfff) return fail_here("JSON: half a surrogate pair", field);
    append_utf8(out, code);
  }
  if (at_ == text_.size()) return fail_here("JSON: a string without end", field);
  if (!is_utf8(out)) return fail_here("JSON: a string is not UTF-8", field);
  ++at_;
  decoded_.push_front(std::move(out));
  return std::string_view(decoded_.front());
}

Result<std::string_view> JsonReader::number_text(std::string_view field) {
  const char c = peek();
  if (c != '-' && !is_digit(c)) return unexpected("a number", field);
  const std::size_t begin = at_;
  const auto digits = [this] {
    const std::size_t from = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > from;
  };
  const auto here = [this] { return at_ < text_.size() ? text_[at_] : '\0'; };
  if (c == '-') ++at_;
  const bool zero = here() == '0';
  const std::size_t first = at_;
  if (!digits() || (zero && at_ - first > 1)) return fail_here("JSON: not a number", field);
  if (here() == '.') {
    ++at_;
    if (!digits()) return fail_here("JSON: not a number", field);
  }
  if (here() == 'e' || here() == 'E') {
    ++at_;
    if (here() == '+' || here() == '-') ++at_;
    if (!digits()) return fail_here("JSON: not a number", field);
  }
  return text_.substr(begin, at_ - begin);
}

Result<std::uint64_t> JsonReader::integer(std::string_view field) {
  const std::uint64_t at = offset();
  ONEPASS_ASSIGN(const std::string_view text, number_text(field));
  if (const auto value = whole_value(text)) return *value;
  return fail_at(ErrorCode::parse,
                 "is " + clipped(text) + ", expected an integer from 0 to 2^64 - 1", at,
                 clipped(field));
}

Result<double> JsonReader::number(std::string_view field) {
  ONEPASS_ASSIGN(const std::string_view text, number_text(field));
  return decimal_value(text).value_or(0.0);
}

bool JsonReader::literal(std::string_view word) noexcept {
  peek();
  if (text_.substr(at_, word.size()) != word) return false;
  at_ += word.size();
  return true;
}

Result<bool> JsonReader::boolean(std::string_view field) {
  if (literal("true")) return true;
  if (literal("false")) return false;
  return unexpected("true or false", field);
}

Status JsonReader::null(std::string_view field) {
  if (!literal("null")) return unexpected("null", field);
  return {};
}

Status JsonReader::skip(std::string_view field) {
  const std::uint32_t outside = depth_;
  std::vector<JsonKind> open_containers;
  do {
    if (depth_ > outside) {
      const bool object = open_containers.back() == JsonKind::object;
      bool more = false;
      if (object) {
        ONEPASS_ASSIGN(const std::optional<std::string_view> key, next_key(field));
        more = key.has_value();
      } else {
        ONEPASS_ASSIGN(more, next_item(field));
      }
      if (!more) {
        open_containers.pop_back();
        continue;
      }
    }
    ONEPASS_ASSIGN(const JsonKind k, kind(field));
    switch (k) {
      case JsonKind::object:
        ONEPASS_TRY(begin_object(field));
        open_containers.push_back(k);
        break;
      case JsonKind::array:
        ONEPASS_TRY(begin_array(field));
        open_containers.push_back(k);
        break;
      case JsonKind::string:
        ONEPASS_TRY(string(field));
        break;
      case JsonKind::number:
        ONEPASS_TRY(number_text(field));
        break;
      case JsonKind::boolean:
        ONEPASS_TRY(boolean(field));
        break;
      case JsonKind::null:
        ONEPASS_TRY(null(field));
        break;
    }
  } while (depth_ > outside);
  return {};
}

Status JsonReader::end(std::string_view field) {
  peek();
  if (at_ != text_.size()) return unexpected("the end", field);
  return {};
}

}  // namespace onepass::io
