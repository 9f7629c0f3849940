#include "text/template/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/template/interpreter.h"
#include "text/template/text.h"

namespace onepass::llm::chat {
namespace {

using In = Interpreter;

Result<std::string> as_text(In& in, const Value& value) { return to_text(value, in.budget()); }

// A filter that maps text to text and keeps markup.
template <std::string (*change)(std::string_view)>
Result<Value> mapped(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("a filter without arguments", args, {}));
  ONEPASS_ASSIGN(const std::string text, as_text(in, v));
  return in.text(change(text), v.is_text() && v.text()->markup);
}

// Words start behind white space, - ( { [ and <.
std::string title_words(std::string_view text) {
  std::string out;
  bool inside = false;
  for (const std::string_view part : code_points(text)) {
    const bool gap =
        strip_left(part).empty() || std::string_view("-({[<").find(part) != std::string_view::npos;
    out += gap ? std::string(part) : inside ? lower(part) : upper(part);
    inside = !gap;
  }
  return out;
}

Result<Value> trim(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("trim", args, {"chars"}));
  ONEPASS_ASSIGN(const std::string text, as_text(in, v));
  const bool markup = v.is_text() && v.text()->markup;
  if (!a[0] || a[0]->is_none()) {
    return in.text(std::string(strip_right(strip_left(text))), markup);
  }
  const std::string_view set = a[0]->bytes();
  ONEPASS_TRY(in.budget().pay((text.size() + 1) * (set.size() / 16 + 1)));
  return in.text(std::string(strip_right(strip_left(text, set), set)), markup);
}

Result<Value> replace(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("replace", args, {"old", "new", "count"}));
  if (!a[0] || !a[1]) return fail(ErrorCode::invalid_argument, "replace needs old and new");
  ONEPASS_ASSIGN(std::string text, as_text(in, v));
  ONEPASS_ASSIGN(std::string from, as_text(in, *a[0]));
  ONEPASS_ASSIGN(std::string to, as_text(in, *a[1]));
  Args method_args{{Value(std::move(from)), Value(std::move(to))}, {}};
  if (a[2] && !a[2]->is_none()) method_args.positional.push_back(*a[2]);
  const Method method{std::make_shared<const Value>(std::move(text)), "replace"};
  return call_method(in, method, method_args);
}

Result<Value> indent(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("indent", args, {"width", "first", "blank"}));
  if (!v.is_text()) {
    return fail(ErrorCode::invalid_argument,
                std::string("indent needs a str, got ") + v.type_name());
  }
  std::string space;
  if (a[0] && a[0]->is_text()) {
    space = a[0]->bytes();
  } else {
    ONEPASS_ASSIGN(const std::int64_t width, integer_or(a[0], 4));
    if (width > 10000) return fail(ErrorCode::limit, "indent: at most 10000 columns");
    space.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
  }
  const bool blank = truth_or(a[2], false);
  const std::string text = std::string(v.bytes()) + "\n";
  const std::vector<std::string_view> lines = split_lines(text, false);
  ONEPASS_TRY(in.budget().pay_bytes(text.size() + lines.size() * space.size()));
  std::string out = truth_or(a[1], false) ? space : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\n";
    if (i > 0 && (blank || !lines[i].empty())) out += space;
    out += lines[i];
    if (out.size() > in.limits().output_bytes) break;
  }
  return in.text(std::move(out), v.text()->markup);
}

Result<Value> tojson(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a,
                 bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ascii = truth_or(a[0], false);
  if (a[1] && !a[1]->is_none()) {
    style.pretty = true;
    style.item_separator = ",";
    if (a[1]->is_text()) {
      style.indent = a[1]->bytes();
    } else {
      ONEPASS_ASSIGN(const std::int64_t width, integer_or(a[1], 0));
      if (width > 1000) return fail(ErrorCode::limit, "tojson: an indent of at most 1000 columns");
      style.indent.assign(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
  }
  if (a[2] && !a[2]->is_none()) {
    const Sequence* pair = a[2]->seq();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].is_text() ||
        !pair->items[1].is_text()) {
      return fail(ErrorCode::invalid_argument, "tojson: separators are two texts");
    }
    style.item_separator = pair->items[0].bytes();
    style.key_separator = pair->items[1].bytes();
  }
  style.sort_keys = truth_or(a[3], false);
  ONEPASS_ASSIGN(std::string text, to_json(v, style, in.budget()));
  return in.text(std::move(text));
}

Result<Value> default_to(In&, const Value& v, Args& args) {
  ONEPASS_ASSIGN(auto a, bind("default", args, {"default_value", "boolean"}));
  const bool replaced = v.is_undefined() || (truth_or(a[1], false) && !truth(v));
  if (!replaced) return v;
  return a[0] ? std::move(*a[0]) : Value("");
}

// Python's int(text); nothing where it is none.
std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  text = strip_right(strip_left(text));
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('-') || text.starts_with('+')) return {};
  std::string digits(minus ? "-" : "");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (text[i] != '_' || !between) digits += text[i];
  }
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || at != end) return {};
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  return read_real(strip_right(strip_left(text)));
}

Result<Value> to_integer(In&, const Value& v, Args& args) {
  ONEPASS_ASSIGN(auto a, bind("int", args, {"default", "base"}));
  ONEPASS_ASSIGN(const std::int64_t base, integer_or(a[1], 10));
  if (base < 2 || base > 36) return fail(ErrorCode::invalid_argument, "int: base 2 to 36");
  Value fallback = a[0] ? std::move(*a[0]) : Value(0);
  if (v.is_undefined()) return undefined_error(v);
  if (v.is_integer()) return Value(v.as_integer());
  std::optional<double> real;
  if (v.is<double>()) real = v.as_real();
  if (v.is_text()) {
    if (const auto integer = parse_integer(v.bytes(), static_cast<int>(base)))
      return Value(*integer);
    real = parse_real(v.bytes());
  }
  if (!real || !std::isfinite(*real)) return fallback;
  if (std::abs(*real) >= 9.2e18) return fail(ErrorCode::limit, "int: does not fit in 64 bits");
  return Value(static_cast<std::int64_t>(*real));
}

Result<Value> to_real(In&, const Value& v, Args& args) {
  ONEPASS_ASSIGN(auto a, bind("float", args, {"default"}));
  if (v.is_undefined()) return undefined_error(v);
  if (v.is_number()) return Value(v.as_real());
  if (v.is_text()) {
    if (const auto real = parse_real(v.bytes())) return Value(*real);
  }
  return a[0] ? std::move(*a[0]) : Value(0.0);
}

Result<Value> absolute(In&, const Value& v, Args& args) {
  ONEPASS_TRY(bind("abs", args, {}));
  if (v.is<double>()) return Value(std::abs(v.as_real()));
  if (v.is_integer() && v.as_integer() >= 0) return Value(v.as_integer());
  return negated(v);
}

Result<Value> rounded(In&, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("round", args, {"precision", "method"}));
  if (!v.is_number()) {
    return fail(ErrorCode::invalid_argument, std::string("round: no number: ") + v.type_name());
  }
  ONEPASS_ASSIGN(const std::int64_t digits, integer_or(a[0], 0));
  const std::string_view method = a[1] ? a[1]->bytes() : "common";
  if (digits < -15 || digits > 15) {
    return fail(ErrorCode::unsupported, "round: -15 to 15 digits");
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (method == "ceil") return Value(std::ceil(v.as_real() * scale) / scale);
  if (method == "floor") return Value(std::floor(v.as_real() * scale) / scale);
  if (method != "common") {
    return fail(ErrorCode::invalid_argument, "round: method is common, ceil or floor");
  }
  if (v.is_integer() && digits >= 0) return Value(v.as_integer());
  if (!std::isfinite(v.as_real())) return v;
  if (digits < 0 || v.is_integer()) {
    return fail(ErrorCode::unsupported, "round: to whole tens is not supported");
  }
  // Correctly rounded, half to even, as printing does it.
  char buffer[400];
  const int n = std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), v.as_real());
  return Value(read_real(std::string_view(buffer, static_cast<std::size_t>(n))).value_or(0.0));
}

Result<Value> to_string(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("string", args, {}));
  if (v.is_text()) return v;
  ONEPASS_ASSIGN(std::string text, as_text(in, v));
  return in.text(std::move(text));
}

Result<Value> safe(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("safe", args, {}));
  ONEPASS_ASSIGN(std::string text, as_text(in, v));
  return in.text(std::move(text), true);
}

Result<Value> escape(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("escape", args, {}));
  if (v.is_text() && v.text()->markup) return v;
  ONEPASS_ASSIGN(const std::string text, as_text(in, v));
  return in.text(html_escaped(text), true);
}

Result<Value> center(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("center", args, {"width"}));
  ONEPASS_ASSIGN(const std::int64_t width, integer_or(a[0], 80));
  ONEPASS_ASSIGN(const std::string text, as_text(in, v));
  if (width > 100000) return fail(ErrorCode::limit, "center: at most 100000 columns");
  const std::int64_t free = width - static_cast<std::int64_t>(count_code_points(text));
  if (free <= 0) return in.text(text);
  const std::int64_t left = free / 2 + (free & width & 1);
  return in.text(std::string(static_cast<std::size_t>(left), ' ') + text +
                 std::string(static_cast<std::size_t>(free - left), ' '));
}

Result<Value> truncate(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("truncate", args, {"length", "killwords", "end", "leeway"}));
  ONEPASS_ASSIGN(const std::int64_t length, integer_or(a[0], 255));
  ONEPASS_ASSIGN(const std::int64_t leeway, integer_or(a[3], 5));
  const std::string end = a[2] ? std::string(a[2]->bytes()) : "...";
  const auto end_length = static_cast<std::int64_t>(count_code_points(end));
  if (!v.is_text() || length < end_length || leeway < 0 || length > 1'000'000'000) {
    return fail(ErrorCode::invalid_argument, "truncate: needs a str and a length above its end's");
  }
  ONEPASS_TRY(in.budget().pay_bytes(v.bytes().size()));
  if (static_cast<std::int64_t>(v.text()->length) <= length + leeway) return v;
  std::string_view kept =
      v.bytes().substr(0, byte_of(v.bytes(), static_cast<std::size_t>(length - end_length)));
  if (!truth_or(a[1], false)) kept = split(kept, " ", 1, true).front();
  return in.text(std::string(kept) + end);
}

Result<Value> word_count(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("wordcount", args, {}));
  ONEPASS_ASSIGN(const std::string text, as_text(in, v));
  std::int64_t words = 0;
  bool inside = false;
  for (const std::string_view part : code_points(text)) {
    const bool word = part == "_" || consists_of(part, "a0");
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value(words);
}

constexpr Filter table[] = {
    {"abs", absolute},         {"capitalize", mapped<capitalize>},
    {"center", center},        {"d", default_to},
    {"default", default_to},   {"e", escape},
    {"escape", escape},        {"float", to_real},
    {"indent", indent},        {"int", to_integer},
    {"lower", mapped<lower>},  {"replace", replace},
    {"round", rounded},        {"safe", safe},
    {"string", to_string},     {"title", mapped<title_words>},
    {"tojson", tojson},        {"trim", trim},
    {"truncate", truncate},    {"upper", mapped<upper>},
    {"wordcount", word_count},
};

}  // namespace

const Filter* find_text_filter(std::string_view name) noexcept {
  for (const Filter& filter : table) {
    if (name == filter.name) return &filter;
  }
  return nullptr;
}

const Filter* find_filter(std::string_view name) noexcept {
  const Filter* filter = find_text_filter(name);
  return filter != nullptr ? filter : find_sequence_filter(name);
}

Result<std::vector<std::optional<Value>>> bind(std::string_view what, Args& args,
                                               std::initializer_list<const char*> names) {
  std::vector<std::optional<Value>> out(names.size());
  if (args.positional.size() > names.size()) {
    return fail(ErrorCode::invalid_argument, std::string(what) + ": takes at most " +
                                                 std::to_string(names.size()) + " arguments, got " +
                                                 std::to_string(args.positional.size()));
  }
  for (std::size_t i = 0; i < args.positional.size(); ++i) out[i] = std::move(args.positional[i]);
  for (auto& [name, value] : args.named) {
    const auto* known = std::find_if(names.begin(), names.end(),
                                     [&n = name](const char* other) { return n == other; });
    const auto i = static_cast<std::size_t>(known - names.begin());
    if (known == names.end() || out[i]) {
      return fail(ErrorCode::invalid_argument,
                  std::string(what) + ": unexpected argument '" + name + "'");
    }
    out[i] = std::move(value);
  }
  return out;
}

Result<std::int64_t> integer_or(const std::optional<Value>& arg, std::int64_t fallback) {
  if (!arg) return fallback;
  if (arg->is_integer()) return arg->as_integer();
  return fail(ErrorCode::invalid_argument,
              std::string("expected an integer, got ") + arg->type_name());
}

bool truth_or(const std::optional<Value>& arg, bool fallback) {
  return arg ? truth(*arg) : fallback;
}

}  // namespace onepass::llm::chat
