#include <algorithm>

#include "text/template/filters.h"
#include "text/template/interpreter.h"
#include "text/template/tests.h"
#include "text/template/text.h"

namespace onepass::llm::chat {
namespace {

using In = Interpreter;
using Items = std::vector<Value>;

Result<Items> items(In& in, const Value& v) { return items_of(v, in.budget()); }
// For filters that take none and the like for an empty list.
Result<Items> items_or_none(In& in, const Value& v) {
  if (!truth(v)) return Items();
  return items(in, v);
}

// value.a.b.0 for "a.b.0".
Result<Value> dotted(In& in, Value value, const Value& path) {
  if (path.is_integer()) return in.item(value, path);
  if (!path.is_text()) {
    return fail(ErrorCode::invalid_argument,
                std::string("an attribute is a str, got ") + path.type_name());
  }
  for (const std::string_view part : split(path.bytes(), ".", -1, false)) {
    Value key(part);
    if (consists_of(part, "0") && part.size() < 10) key = Value(std::stoi(std::string(part)));
    ONEPASS_ASSIGN(value, in.item(value, key));
  }
  return value;
}

// What sort, unique, min and max look at.
struct Key {
  std::optional<Value> attribute;
  bool case_sensitive = false;

  Result<Value> of(In& in, const Value& value) const {
    Value key = value;
    if (attribute && !attribute->is_none()) {
      ONEPASS_ASSIGN(key, dotted(in, value, *attribute));
    }
    if (case_sensitive || !key.is_text()) return key;
    return in.text(lower(key.bytes()));
  }
};

// Stable; an error of a comparison ends it.
Status sort_by(In& in, Items& values, const std::vector<Items>& keys, bool reverse) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  Status status;
  // A merge sort of our own would be needed to stop early; the budget bounds what is left.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (!status) return false;
    for (std::size_t k = 0; k < keys[a].size(); ++k) {
      const auto less = compare(reverse ? keys[b][k] : keys[a][k],
                                reverse ? keys[a][k] : keys[b][k], in.budget());
      if (!less) {
        status = less.error();
        return false;
      }
      if (*less != 0) return *less < 0;
    }
    return false;
  });
  ONEPASS_TRY(status);
  Items sorted;
  for (const std::size_t i : order) sorted.push_back(values[i]);
  values = std::move(sorted);
  return {};
}

Result<Value> sort(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("sort", args, {"reverse", "case_sensitive", "attribute"}));
  ONEPASS_ASSIGN(Items values, items(in, v));
  std::vector<Key> parts;
  const bool case_sensitive = truth_or(a[1], false);
  if (a[2] && a[2]->is_text()) {
    for (const std::string_view part : split(a[2]->bytes(), ",", -1, false)) {
      parts.push_back({Value(part), case_sensitive});
    }
  } else {
    parts.push_back({a[2], case_sensitive});
  }
  std::vector<Items> keys;
  for (const Value& value : values) {
    Items key;
    for (const Key& part : parts) {
      ONEPASS_ASSIGN(Value one, part.of(in, value));
      key.push_back(std::move(one));
    }
    keys.push_back(std::move(key));
  }
  ONEPASS_TRY(sort_by(in, values, keys, truth_or(a[0], false)));
  return in.sequence(SequenceKind::list, std::move(values));
}

Result<Value> dict_sort(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("dictsort", args, {"case_sensitive", "by", "reverse"}));
  const Dict* dict = v.mapping();
  if (dict == nullptr) return fail(ErrorCode::invalid_argument, "dictsort needs a dict");
  const std::string_view by = a[1] ? a[1]->bytes() : "key";
  if (by != "key" && by != "value") {
    return fail(ErrorCode::invalid_argument, "dictsort: by is key or value");
  }
  Items values;
  std::vector<Items> keys;
  const Key key{std::nullopt, truth_or(a[0], false)};
  for (const auto& [name, value] : dict->entries) {
    values.push_back(Value::tuple({name, value}));
    ONEPASS_ASSIGN(Value one, key.of(in, by == "key" ? name : value));
    keys.push_back({std::move(one)});
  }
  ONEPASS_TRY(sort_by(in, values, keys, truth_or(a[2], false)));
  return in.sequence(SequenceKind::list, std::move(values));
}

Result<Value> unique(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("unique", args, {"case_sensitive", "attribute"}));
  const Key key{a[1], truth_or(a[0], false)};
  ONEPASS_ASSIGN(Items values, items(in, v));
  Items seen, kept;
  for (Value& value : values) {
    ONEPASS_ASSIGN(Value one, key.of(in, value));
    if (!is_hashable(one)) return not_hashable(one);
    bool known = false;
    for (const Value& other : seen) {
      ONEPASS_ASSIGN(known, equal(one, other, in.budget()));
      if (known) break;
    }
    if (known) continue;
    seen.push_back(std::move(one));
    kept.push_back(std::move(value));
  }
  return in.sequence(SequenceKind::generator, std::move(kept));
}

template <int sign>
Result<Value> extreme(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("min and max", args, {"case_sensitive", "attribute"}));
  const Key key{a[1], truth_or(a[0], false)};
  ONEPASS_ASSIGN(Items values, items(in, v));
  if (values.empty()) return Value::undefined("the sequence is empty");
  std::size_t best = 0;
  ONEPASS_ASSIGN(Value best_key, key.of(in, values[0]));
  for (std::size_t i = 1; i < values.size(); ++i) {
    ONEPASS_ASSIGN(Value one, key.of(in, values[i]));
    ONEPASS_ASSIGN(const int order, compare(one, best_key, in.budget()));
    if (order * sign <= 0) continue;
    best = i;
    best_key = std::move(one);
  }
  return values[best];
}

Result<Value> sum(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("sum", args, {"attribute", "start"}));
  Value total = a[1] ? *a[1] : Value(0);
  if (total.is_text()) return fail(ErrorCode::invalid_argument, "sum: join texts with join");
  ONEPASS_ASSIGN(const Items values, items(in, v));
  for (const Value& value : values) {
    Value one = value;
    if (a[0] && !a[0]->is_none()) {
      ONEPASS_ASSIGN(one, dotted(in, value, *a[0]));
    }
    ONEPASS_ASSIGN(total, binary(in, "+", total, one));
    if (total.depth() > in.limits().depth) return fail(ErrorCode::limit, "sum nests too deep");
  }
  return total;
}

Result<Value> join(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("join", args, {"d", "attribute"}));
  std::string separator, out;
  if (a[0]) {
    ONEPASS_ASSIGN(separator, to_text(*a[0], in.budget()));
  }
  ONEPASS_ASSIGN(const Items values, items(in, v));
  bool first = true;
  for (const Value& value : values) {
    Value one = value;
    if (a[1] && !a[1]->is_none()) {
      ONEPASS_ASSIGN(one, dotted(in, value, *a[1]));
    }
    ONEPASS_ASSIGN(const std::string piece, to_text(one, in.budget()));
    if (!std::exchange(first, false)) out += separator;
    out += piece;
    if (out.size() > in.limits().output_bytes) break;
  }
  return in.text(std::move(out));
}

Result<Value> length(In&, const Value& v, Args& args) {
  ONEPASS_TRY(bind("length", args, {}));
  ONEPASS_ASSIGN(const std::int64_t n, length_of(v));
  return Value(n);
}

Result<Value> first(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("first", args, {}));
  ONEPASS_ASSIGN(const Items values, items(in, v));
  return values.empty() ? Value::undefined("there is no first item, the sequence is empty")
                        : values.front();
}

Result<Value> last(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("last", args, {}));
  if (v.is_kind(SequenceKind::generator)) {
    return fail(ErrorCode::invalid_argument, "last: a generator has no end to start from");
  }
  ONEPASS_ASSIGN(const Items values, items(in, v));
  return values.empty() ? Value::undefined("there is no last item, the sequence is empty")
                        : values.back();
}

Result<Value> to_list(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("list", args, {}));
  ONEPASS_ASSIGN(Items values, items(in, v));
  return in.sequence(SequenceKind::list, std::move(values));
}

Result<Value> reverse(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("reverse", args, {}));
  if (v.is_text()) return sliced(in, v, Value(), Value(), Value(-1));
  ONEPASS_ASSIGN(Items values, items(in, v));
  std::reverse(values.begin(), values.end());
  return in.sequence(SequenceKind::generator, std::move(values));
}

Result<Value> dict_items(In& in, const Value& v, Args& args) {
  ONEPASS_TRY(bind("items", args, {}));
  Items pairs;
  if (!v.is_undefined()) {
    const Dict* dict = v.mapping();
    if (dict == nullptr) {
      return fail(ErrorCode::invalid_argument,
                  std::string("items needs a dict, got ") + v.type_name());
    }
    ONEPASS_TRY(in.budget().pay(2 * dict->entries.size()));
    for (const auto& [key, value] : dict->entries) pairs.push_back(Value::tuple({key, value}));
  }
  return in.sequence(SequenceKind::generator, std::move(pairs));
}

Result<Value> map(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const Items values, items_or_none(in, v));
  Items out;
  if (args.positional.empty() && !args.named.empty()) {
    ONEPASS_ASSIGN(const auto a, bind("map", args, {"attribute", "default"}));
    if (!a[0]) return fail(ErrorCode::invalid_argument, "map needs a filter or an attribute");
    for (const Value& value : values) {
      ONEPASS_ASSIGN(Value one, dotted(in, value, *a[0]));
      if (one.is_undefined() && a[1] && !a[1]->is_none()) one = *a[1];
      out.push_back(std::move(one));
    }
    return in.sequence(SequenceKind::generator, std::move(out));
  }
  const std::string name(args.positional.empty() ? "" : args.positional[0].bytes());
  const Filter* filter = find_filter(name);
  if (filter == nullptr) {
    return fail(ErrorCode::unsupported,
                "map: filter '" + name.substr(0, 40) + "' is not supported");
  }
  // A filter that names itself would recurse without an end.
  if (name == "map" || name.starts_with("select") || name.starts_with("reject")) {
    return fail(ErrorCode::unsupported, "map: filter '" + name + "' cannot be mapped");
  }
  args.positional.erase(args.positional.begin());
  for (const Value& value : values) {
    Args copy = args;
    ONEPASS_TRY(in.budget().pay(1 + args.positional.size() + args.named.size()));
    ONEPASS_ASSIGN(Value one, filter->apply(in, value, copy));
    out.push_back(std::move(one));
  }
  return in.sequence(SequenceKind::generator, std::move(out));
}

template <bool wanted, bool by_attribute>
Result<Value> chosen(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(Items values, items_or_none(in, v));
  std::optional<Value> attribute;
  Args rest;
  rest.named = std::move(args.named);
  const Test* test = nullptr;
  std::size_t at = 0;
  if constexpr (by_attribute) {
    if (args.positional.empty()) {
      return fail(ErrorCode::invalid_argument, "the name of an attribute is missing");
    }
    attribute = args.positional[at++];
  }
  if (at < args.positional.size()) {
    const std::string name(args.positional[at++].bytes());
    test = find_test(name);
    if (test == nullptr) {
      return fail(ErrorCode::unsupported, "test '" + name.substr(0, 40) + "' is not supported");
    }
  }
  for (; at < args.positional.size(); ++at) rest.positional.push_back(args.positional[at]);
  Items kept;
  for (Value& value : values) {
    Value looked = value;
    if (attribute) {
      ONEPASS_ASSIGN(looked, dotted(in, value, *attribute));
    }
    bool holds = truth(looked);
    if (test != nullptr) {
      ONEPASS_ASSIGN(holds, apply_test(in, *test, looked, rest));
    }
    if (holds == wanted) kept.push_back(std::move(value));
  }
  return in.sequence(SequenceKind::generator, std::move(kept));
}

Result<Value> batch(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("batch", args, {"linecount", "fill_with"}));
  ONEPASS_ASSIGN(const std::int64_t n, integer_or(a[0], 0));
  if (n < 1 || n > in.limits().range) {
    return fail(ErrorCode::invalid_argument, "batch: a size of 1 or more");
  }
  ONEPASS_ASSIGN(Items values, items(in, v));
  const auto size = static_cast<std::size_t>(n);
  Items out, part;
  for (std::size_t i = 0; i < values.size(); ++i) {
    part.push_back(std::move(values[i]));
    if (part.size() < size && i + 1 < values.size()) continue;
    if (a[1] && !a[1]->is_none()) {
      ONEPASS_TRY(in.budget().pay(size));
      part.resize(size, *a[1]);
    }
    out.push_back(Value::list(std::move(part)));
    part = {};
  }
  return in.sequence(SequenceKind::generator, std::move(out));
}

Result<Value> attr(In& in, const Value& v, Args& args) {
  ONEPASS_ASSIGN(const auto a, bind("attr", args, {"name"}));
  if (!a[0]) return fail(ErrorCode::invalid_argument, "attr needs a name");
  if (v.mapping() != nullptr) return find_method(v, a[0]->bytes());  // keys are no attributes
  return in.attribute(v, a[0]->bytes());
}

constexpr Filter table[] = {
    {"attr", attr},
    {"batch", batch},
    {"count", length},
    {"dictsort", dict_sort},
    {"first", first},
    {"items", dict_items},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", to_list},
    {"map", map},
    {"max", extreme<1>},
    {"min", extreme<-1>},
    {"reject", chosen<false, false>},
    {"rejectattr", chosen<false, true>},
    {"reverse", reverse},
    {"select", chosen<true, false>},
    {"selectattr", chosen<true, true>},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

const Filter* find_sequence_filter(std::string_view name) noexcept {
  for (const Filter& filter : table) {
    if (name == filter.name) return &filter;
  }
  return nullptr;
}

}  // namespace onepass::llm::chat
