#include <algorithm>

#include "text/template/filters.h"
#include "text/template/interpreter.h"
#include "text/template/text.h"

namespace onepass::llm::chat {
namespace {

using In = Interpreter;
using Call = Result<Value> (*)(In& in, const Value& self, Args& args);

struct MethodRow {
  const char* name;
  Call call;
};

Result<std::string_view> text_of(const std::optional<Value>& arg, std::string_view what) {
  if (!arg || !arg->is_text()) {
    return fail(
        ErrorCode::invalid_argument,
        std::string(what) + " needs a str" + (arg ? std::string(", got ") + arg->type_name() : ""));
  }
  return arg->bytes();
}

Result<Value> listed(In& in, const std::vector<std::string_view>& parts,
                     SequenceKind kind = SequenceKind::list) {
  ONEPASS_TRY(in.budget().pay(2 * parts.size()));
  std::vector<Value> out;
  for (const std::string_view part : parts) out.emplace_back(part);
  return in.sequence(kind, std::move(out));
}

template <std::string (*change)(std::string_view)>
Result<Value> changed(In& in, const Value& self, Args& args) {
  ONEPASS_TRY(bind("the method", args, {}));
  return in.text(change(self.bytes()), self.text()->markup);
}

template <bool left, bool right>
Result<Value> strip(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("strip", args, {"chars"}));
  std::string_view text = self.bytes();
  if (!a[0] || a[0]->is_none()) {
    if (left) text = strip_left(text);
    if (right) text = strip_right(text);
  } else {
    ONEPASS_ASSIGN(const std::string_view set, text_of(a[0], "strip"));
    ONEPASS_TRY(in.budget().pay((text.size() / 8 + 1) * (set.size() / 16 + 1)));
    if (left) text = strip_left(text, set);
    if (right) text = strip_right(text, set);
  }
  return in.text(std::string(text), self.text()->markup);
}

template <bool from_right>
Result<Value> split_text(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("split", args, {"sep", "maxsplit"}));
  ONEPASS_ASSIGN(const std::int64_t max_splits, integer_or(a[1], -1));
  ONEPASS_TRY(in.budget().pay_bytes(self.bytes().size()));
  if (!a[0] || a[0]->is_none()) {
    return listed(in, split_space(self.bytes(), max_splits, from_right));
  }
  ONEPASS_ASSIGN(const std::string_view separator, text_of(a[0], "split"));
  if (separator.empty()) return fail(ErrorCode::invalid_argument, "split: the separator is empty");
  ONEPASS_TRY(in.budget().pay_search(self.bytes(), separator));
  return listed(in, split(self.bytes(), separator, max_splits, from_right));
}

Result<Value> split_text_lines(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("splitlines", args, {"keepends"}));
  return listed(in, split_lines(self.bytes(), truth_or(a[0], false)));
}

template <bool from_right>
Result<Value> partition(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("partition", args, {"sep"}));
  ONEPASS_ASSIGN(const std::string_view separator, text_of(a[0], "partition"));
  if (separator.empty()) {
    return fail(ErrorCode::invalid_argument, "partition: the separator is empty");
  }
  ONEPASS_TRY(in.budget().pay_search(self.bytes(), separator));
  const std::vector<std::string_view> parts = split(self.bytes(), separator, 1, from_right);
  if (parts.size() == 2) return listed(in, {parts[0], separator, parts[1]}, SequenceKind::tuple);
  if (from_right) return listed(in, {"", "", parts[0]}, SequenceKind::tuple);
  return listed(in, {parts[0], "", ""}, SequenceKind::tuple);
}

template <bool at_end>
Result<Value> has_affix(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("startswith and endswith", args, {"affix", "start", "end"}));
  Value text = self;
  if (a[1] || a[2]) {
    ONEPASS_ASSIGN(text, sliced(in, self, a[1] ? *a[1] : Value(), a[2] ? *a[2] : Value(), Value()));
  }
  std::vector<Value> affixes;
  if (a[0] && a[0]->is_kind(SequenceKind::tuple)) {
    affixes = a[0]->seq()->items;
  } else if (a[0]) {
    affixes.push_back(*a[0]);
  }
  for (const Value& affix : affixes) {
    ONEPASS_ASSIGN(const std::string_view part, text_of(affix, "startswith and endswith"));
    ONEPASS_TRY(in.budget().pay_bytes(part.size()));
    if (at_end ? text.bytes().ends_with(part) : text.bytes().starts_with(part)) return Value(true);
  }
  if (!a[0]) return fail(ErrorCode::invalid_argument, "startswith and endswith need a str");
  return Value(false);
}

template <bool from_right>
Result<Value> find(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("find", args, {"sub"}));
  ONEPASS_ASSIGN(const std::string_view part, text_of(a[0], "find"));
  ONEPASS_TRY(in.budget().pay_search(self.bytes(), part));
  const std::size_t at = from_right ? self.bytes().rfind(part) : self.bytes().find(part);
  if (at == std::string_view::npos) return Value(-1);
  return Value(static_cast<std::int64_t>(count_code_points(self.bytes().substr(0, at))));
}

Result<Value> text_index(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(Value at, find<false>(in, self, args));
  if (at.as_integer() < 0) return fail(ErrorCode::invalid_argument, "index: not found");
  return at;
}

Result<Value> count_text(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("count", args, {"sub"}));
  ONEPASS_ASSIGN(const std::string_view part, text_of(a[0], "count"));
  ONEPASS_TRY(in.budget().pay_search(self.bytes(), part));
  if (part.empty()) return Value(static_cast<std::int64_t>(self.text()->length + 1));
  return Value(static_cast<std::int64_t>(split(self.bytes(), part, -1, false).size() - 1));
}

Result<Value> replace(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("replace", args, {"old", "new", "count"}));
  ONEPASS_ASSIGN(const std::string_view from, text_of(a[0], "replace"));
  ONEPASS_ASSIGN(const std::string_view to, text_of(a[1], "replace"));
  ONEPASS_ASSIGN(const std::int64_t count, integer_or(a[2], -1));
  const std::string_view text = self.bytes();
  ONEPASS_TRY(in.budget().pay_search(text, from));
  std::vector<std::string_view> parts;
  if (from.empty()) {  // between all characters, and around them
    parts.push_back("");
    std::size_t at = 0;
    for (const std::string_view part : code_points(text)) {
      if (count >= 0 && parts.size() >= static_cast<std::size_t>(count)) break;
      parts.push_back(part);
      at += part.size();
    }
    parts.push_back(text.substr(at));
    if (count == 0) return self;
  } else {
    parts = split(text, from, count, false);
  }
  if ((parts.size() - 1) * to.size() > 2 * in.limits().output_bytes) {
    return fail(ErrorCode::limit, "replace: the text becomes longer than " +
                                      std::to_string(in.limits().output_bytes) + " bytes");
  }
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += to;
    out += parts[i];
  }
  return in.text(std::move(out));
}

Result<Value> join(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("join", args, {"iterable"}));
  if (!a[0]) return fail(ErrorCode::invalid_argument, "join needs a list");
  ONEPASS_ASSIGN(const std::vector<Value> values, items_of(*a[0], in.budget()));
  std::string out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ONEPASS_ASSIGN(const std::string_view part, text_of(values[i], "join"));
    if (i > 0) out += self.bytes();
    out += part;
    ONEPASS_TRY(in.budget().pay_bytes(part.size() + self.bytes().size()));
    if (out.size() > in.limits().output_bytes) break;
  }
  return in.text(std::move(out));
}

template <bool at_end>
Result<Value> without_affix(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("removeprefix and removesuffix", args, {"affix"}));
  ONEPASS_ASSIGN(const std::string_view part, text_of(a[0], "removeprefix and removesuffix"));
  std::string_view text = self.bytes();
  if (at_end ? text.ends_with(part) : text.starts_with(part)) {
    text = at_end ? text.substr(0, text.size() - part.size()) : text.substr(part.size());
  }
  return in.text(std::string(text));
}

template <bool (*holds)(std::string_view)>
Result<Value> question(In& in, const Value& self, Args& args) {
  ONEPASS_TRY(bind("the method", args, {}));
  ONEPASS_TRY(in.budget().pay_bytes(self.bytes().size()));
  return Value(holds(self.bytes()));
}
bool digits_only(std::string_view text) { return consists_of(text, "0"); }
bool letters_only(std::string_view text) { return consists_of(text, "a"); }
bool letters_and_digits_only(std::string_view text) { return consists_of(text, "a0"); }
bool spaces_only(std::string_view text) { return consists_of(text, " "); }
bool all_upper(std::string_view text) { return is_upper(text); }
bool all_lower(std::string_view text) { return is_lower(text); }

constexpr MethodRow text_methods[] = {
    {"capitalize", changed<capitalize>},
    {"casefold", changed<lower>},
    {"count", count_text},
    {"endswith", has_affix<true>},
    {"find", find<false>},
    {"index", text_index},
    {"isalnum", question<letters_and_digits_only>},
    {"isalpha", question<letters_only>},
    {"isdigit", question<digits_only>},
    {"islower", question<all_lower>},
    {"isspace", question<spaces_only>},
    {"isupper", question<all_upper>},
    {"join", join},
    {"lower", changed<lower>},
    {"lstrip", strip<true, false>},
    {"partition", partition<false>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"replace", replace},
    {"rfind", find<true>},
    {"rpartition", partition<true>},
    {"rsplit", split_text<true>},
    {"rstrip", strip<false, true>},
    {"split", split_text<false>},
    {"splitlines", split_text_lines},
    {"startswith", has_affix<false>},
    {"strip", strip<true, true>},
    {"title", changed<title>},
    {"upper", changed<upper>},
};
// Of texts made by `safe`: those that leave the characters alone.
constexpr std::string_view markup_methods[] = {"capitalize", "lower", "lstrip",     "rstrip",
                                               "strip",      "title", "startswith", "upper",
                                               "endswith",   "find"};

Result<Value> list_index(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("index", args, {"value"}));
  if (!a[0]) return fail(ErrorCode::invalid_argument, "index needs a value");
  const std::vector<Value>& items = self.seq()->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    ONEPASS_ASSIGN(const bool same, equal(items[i], *a[0], in.budget()));
    if (same) return Value(static_cast<std::int64_t>(i));
  }
  return fail(ErrorCode::invalid_argument, "index: the value is not in the list");
}

Result<Value> list_count(In& in, const Value& self, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("count", args, {"value"}));
  if (!a[0]) return fail(ErrorCode::invalid_argument, "count needs a value");
  std::int64_t n = 0;
  for (const Value& item : self.seq()->items) {
    ONEPASS_ASSIGN(const bool same, equal(item, *a[0], in.budget()));
    n += same ? 1 : 0;
  }
  return Value(n);
}

Result<Value> copied(In&, const Value& self, Args& args) {
  ONEPASS_TRY(bind("copy", args, {}));
  return self;
}

constexpr MethodRow list_methods[] = {
    {"copy", copied}, {"count", list_count}, {"index", list_index}};
constexpr MethodRow tuple_methods[] = {{"count", list_count}, {"index", list_index}};

template <char what>
Result<Value> view(In& in, const Value& self, Args& args) {
  ONEPASS_TRY(bind("keys, values and items", args, {}));
  std::vector<Value> out;
  ONEPASS_TRY(in.budget().pay(2 * self.mapping()->entries.size()));
  for (const auto& [key, value] : self.mapping()->entries) {
    out.push_back(what == 'k' ? key : what == 'v' ? value : Value::tuple({key, value}));
  }
  return in.sequence(SequenceKind::view, std::move(out));
}

Result<Value> get(In& in, const Value& self, Args& args) {
  if (!args.named.empty()) return fail(ErrorCode::invalid_argument, "get takes no named arguments");
  ONEPASS_ASSIGN(auto a, bind("get", args, {"key", "default"}));
  if (!a[0]) return fail(ErrorCode::invalid_argument, "get needs a key");
  if (!is_hashable(*a[0])) return not_hashable(*a[0]);
  for (const auto& [key, value] : self.mapping()->entries) {
    ONEPASS_ASSIGN(const bool same, equal(key, *a[0], in.budget()));
    if (same) return value;
  }
  return a[1] ? std::move(*a[1]) : Value();
}

constexpr MethodRow dict_methods[] = {{"copy", copied},
                                      {"get", get},
                                      {"items", view<'i'>},
                                      {"keys", view<'k'>},
                                      {"values", view<'v'>}};
// They would change what they belong to.
constexpr std::string_view refused[] = {"append", "clear",      "extend", "insert",
                                        "pop",    "popitem",    "remove", "reverse",
                                        "sort",   "setdefault", "update"};

Result<Value> cycle(In&, const Value& self, Args& args) {
  const auto& loop = dynamic_cast<const Loop&>(**self.get<Object*>());
  if (args.positional.empty() || !args.named.empty()) {
    return fail(ErrorCode::invalid_argument, "cycle needs values");
  }
  return args.positional[loop.index % args.positional.size()];
}

Result<Value> changed_since(In& in, const Value& self, Args& args) {
  auto& loop = dynamic_cast<Loop&>(**self.get<Object*>());
  ONEPASS_ASSIGN(const bool same,
                 equal(Value::list(args.positional), Value::list(loop.last_seen), in.budget()));
  const bool changed_now = !loop.has_seen || !same;
  loop.has_seen = true;
  loop.last_seen = std::move(args.positional);
  return Value(changed_now);
}

constexpr MethodRow loop_methods[] = {{"changed", changed_since}, {"cycle", cycle}};

struct Rows {
  const MethodRow* begin = nullptr;
  const MethodRow* end = nullptr;
};
template <std::size_t n>
Rows rows(const MethodRow (&table)[n]) {
  return {table, table + n};
}

Rows rows_of(const Value& self) {
  if (self.is_text()) return rows(text_methods);
  if (self.mapping() != nullptr) return rows(dict_methods);
  if (self.is_kind(SequenceKind::list)) return rows(list_methods);
  if (self.is_kind(SequenceKind::tuple) || self.is_kind(SequenceKind::range))
    return rows(tuple_methods);
  const auto* object = self.get<Object*>();
  if (object != nullptr && dynamic_cast<const Loop*>(*object) != nullptr) return rows(loop_methods);
  return {};
}

const MethodRow* find_row(const Value& self, std::string_view name) {
  const Rows table = rows_of(self);
  const auto* row =
      std::find_if(table.begin, table.end, [&](const MethodRow& r) { return name == r.name; });
  return row == table.end ? nullptr : row;
}

}  // namespace

Value find_method(const Value& self, std::string_view name) {
  if (const MethodRow* row = find_row(self, name)) {
    return Value(Method{std::make_shared<const Value>(self), row->name});
  }
  const bool holds_items = self.mapping() != nullptr || self.is_kind(SequenceKind::list);
  if (holds_items && std::find(std::begin(refused), std::end(refused), name) != std::end(refused)) {
    return Value::undefined("'" + std::string(name) + "' would change the " + self.type_name() +
                            ", which templates may not");
  }
  return Value::undefined(std::string(self.type_name()) + " has no attribute '" +
                          std::string(name.substr(0, 80)) + "'");
}

Result<Value> call_method(Interpreter& interpreter, const Method& method, Args& args) {
  const Value& self = *method.self;
  const MethodRow* row = find_row(self, method.name);
  if (row == nullptr) return fail(ErrorCode::internal, "the method is gone");
  if (self.is_text() && self.text()->markup &&
      std::find(std::begin(markup_methods), std::end(markup_methods), method.name) ==
          std::end(markup_methods)) {
    return fail(ErrorCode::unsupported,
                std::string(method.name) + " of a text made by 'safe' is not supported");
  }
  ONEPASS_TRY(interpreter.budget().pay_bytes(self.bytes().size()));
  return row->call(interpreter, self, args);
}

}  // namespace onepass::llm::chat
