#include "text/template/value.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "text/template/object.h"
#include "text/template/text.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm::chat {
namespace {

std::uint32_t deepest(const std::vector<Value>& items) noexcept {
  std::uint32_t depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

// Exact also where a double cannot hold the integer, if a long double can.
int compare_numbers(const Value& a, const Value& b) noexcept {
  if (a.is_integer() && b.is_integer()) {
    return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer();
  }
  const auto wide = [](const Value& v) {
    return v.is_integer() ? static_cast<long double>(v.as_integer())
                          : static_cast<long double>(v.as_real());
  };
  return wide(a) < wide(b) ? -1 : wide(a) > wide(b);
}

Result<bool> equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ONEPASS_ASSIGN(const bool same, equal(a[i], b[i], budget));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    bool found = false;
    for (const auto& [other_key, other] : b.entries) {
      ONEPASS_ASSIGN(const bool same_key, equal(key, other_key, budget));
      if (!same_key) continue;
      ONEPASS_ASSIGN(found, equal(value, other, budget));
      break;
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace

Value::Value(std::string text, bool markup) {
  auto shared = std::make_shared<Text>();
  shared->bytes = text::is_valid_utf8(text) ? std::move(text) : text::replace_invalid(text);
  shared->length = count_code_points(shared->bytes);
  shared->markup = markup;
  data_ = std::shared_ptr<const Text>(std::move(shared));
}

Value Value::undefined(std::string why) {
  Value v;
  v.data_ = Undefined{why.empty() ? nullptr : std::make_shared<const std::string>(std::move(why))};
  return v;
}

Value Value::sequence(SequenceKind kind, std::vector<Value> items) {
  auto shared = std::make_shared<Sequence>();
  shared->kind = kind;
  shared->depth = deepest(items) + 1;
  shared->items = std::move(items);
  Value v;
  v.data_ = std::shared_ptr<const Sequence>(std::move(shared));
  return v;
}

Value Value::dict(std::vector<std::pair<Value, Value>> entries) {
  auto shared = std::make_shared<Dict>();
  std::uint32_t depth = 0;
  Budget unlimited(~std::uint64_t{0});
  std::map<std::string_view, std::size_t> texts;  // views of keys in shared->entries
  const auto place_of = [&](const Value& key) {
    std::size_t place = shared->entries.size();
    if (key.is_text()) return texts.try_emplace(key.bytes(), place).first->second;
    for (std::size_t i = 0; i < shared->entries.size(); ++i) {
      if (equal(shared->entries[i].first, key, unlimited).value_or(false)) return i;
    }
    return place;
  };
  for (auto& [key, value] : entries) {
    depth = std::max({depth, value.depth(), key.depth()});
    const std::size_t place = place_of(key);
    if (place == shared->entries.size()) {
      shared->entries.emplace_back(std::move(key), std::move(value));
    } else {
      shared->entries[place].second = std::move(value);
    }
  }
  shared->depth = depth + 1;
  Value v;
  v.data_ = std::shared_ptr<const Dict>(std::move(shared));
  return v;
}

const Value* Dict::find(std::string_view key) const noexcept {
  for (const auto& [name, value] : entries) {
    if (const Text* text = name.text(); text != nullptr && text->bytes == key) return &value;
  }
  return nullptr;
}

bool Value::is_number() const noexcept { return is_integer() || is<double>(); }

double Value::as_real() const noexcept {
  if (const auto* real = get<double>()) return *real;
  return static_cast<double>(as_integer());
}

std::int64_t Value::as_integer() const noexcept {
  if (const auto* flag = get<bool>()) return *flag ? 1 : 0;
  const auto* number = get<std::int64_t>();
  return number == nullptr ? 0 : *number;
}

std::string_view Value::bytes() const noexcept {
  const Text* t = text();
  return t == nullptr ? std::string_view() : std::string_view(t->bytes);
}

std::uint32_t Value::depth() const noexcept {
  if (const Sequence* s = seq()) return s->depth;
  if (const Dict* d = mapping()) return d->depth;
  if (const Method* m = get<Method>()) return m->self->depth() + 1;
  return 0;
}

const char* Value::type_name() const noexcept {
  if (is_none()) return "None";
  if (is_undefined()) return "Undefined";
  if (is<bool>()) return "bool";
  if (is<std::int64_t>()) return "int";
  if (is<double>()) return "float";
  if (is_text()) return "str";
  if (mapping() != nullptr) return "dict";
  if (const Sequence* s = seq()) {
    switch (s->kind) {
      case SequenceKind::list:
        return "list";
      case SequenceKind::tuple:
        return "tuple";
      case SequenceKind::range:
        return "range";
      case SequenceKind::view:
        return "view of a dict";
      case SequenceKind::generator:
        return "generator";
    }
  }
  if (is<Object*>()) return (*get<Object*>())->type_name();
  return "function";
}

Status Budget::pay(std::uint64_t steps) {
  if (steps > left_) {
    left_ = 0;
    return fail(ErrorCode::limit,
                "the template needs more than " + std::to_string(steps_) + " steps");
  }
  left_ -= steps;
  return {};
}

Error not_hashable(const Value& value) {
  return make_error(ErrorCode::invalid_argument,
                    std::string(value.type_name()) + " cannot be a key");
}

bool truth(const Value& value) noexcept {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is<double>()) return value.as_real() != 0.0;
  if (value.is_integer()) return value.as_integer() != 0;
  if (const Text* t = value.text()) return !t->bytes.empty();
  if (const Dict* d = value.mapping()) return !d->entries.empty();
  if (const Sequence* s = value.seq())
    return s->kind == SequenceKind::generator || !s->items.empty();
  return true;
}

bool is_hashable(const Value& value) noexcept {
  if (value.mapping() != nullptr || value.is_kind(SequenceKind::list)) return false;
  if (!value.is_kind(SequenceKind::tuple)) return true;
  return std::all_of(value.seq()->items.begin(), value.seq()->items.end(), is_hashable);
}

Result<bool> equal(const Value& a, const Value& b, Budget& budget) {
  ONEPASS_TRY(budget.pay(1));
  if (a.is_number() && b.is_number()) {
    if (std::isnan(a.as_real()) || std::isnan(b.as_real())) return false;
    return compare_numbers(a, b) == 0;
  }
  if (a.is_text() && b.is_text()) {
    ONEPASS_TRY(budget.pay_bytes(std::min(a.bytes().size(), b.bytes().size())));
    return a.bytes() == b.bytes();
  }
  if (a.is_none() || a.is_undefined()) return a.is_none() ? b.is_none() : b.is_undefined();
  if (a.seq() != nullptr && b.seq() != nullptr) {
    if (a.seq() == b.seq()) return true;
    if (a.seq()->kind != b.seq()->kind || a.is_kind(SequenceKind::generator)) return false;
    return equal_items(a.seq()->items, b.seq()->items, budget);
  }
  if (a.mapping() != nullptr && b.mapping() != nullptr) {
    return equal_dicts(*a.mapping(), *b.mapping(), budget);
  }
  if (a.is<Object*>() && b.is<Object*>()) return *a.get<Object*>() == *b.get<Object*>();
  if (a.is<const Function*>() && b.is<const Function*>()) {
    return *a.get<const Function*>() == *b.get<const Function*>();
  }
  return false;
}

Result<int> compare(const Value& a, const Value& b, Budget& budget) {
  ONEPASS_TRY(budget.pay(1));
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_text() && b.is_text()) {
    ONEPASS_TRY(budget.pay_bytes(std::min(a.bytes().size(), b.bytes().size())));
    const int order = a.bytes().compare(b.bytes());  // UTF-8 sorts like its code points
    return order < 0 ? -1 : order > 0;
  }
  const Sequence *x = a.seq(), *y = b.seq();
  if (x != nullptr && y != nullptr && x->kind == y->kind &&
      (x->kind == SequenceKind::list || x->kind == SequenceKind::tuple)) {
    for (std::size_t i = 0; i < std::min(x->items.size(), y->items.size()); ++i) {
      ONEPASS_ASSIGN(const bool same, equal(x->items[i], y->items[i], budget));
      if (!same) return compare(x->items[i], y->items[i], budget);
    }
    return x->items.size() < y->items.size() ? -1 : x->items.size() > y->items.size();
  }
  return fail(ErrorCode::invalid_argument,
              std::string("no order between ") + a.type_name() + " and " + b.type_name());
}

Result<bool> contains(const Value& container, const Value& item, Budget& budget) {
  ONEPASS_TRY(budget.pay(1));
  if (const Text* text = container.text()) {
    if (!item.is_text()) {
      return fail(ErrorCode::invalid_argument,
                  std::string("'in' a str needs a str, got ") + item.type_name());
    }
    ONEPASS_TRY(budget.pay_search(text->bytes, item.bytes()));
    return text->bytes.find(item.bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.mapping()) {
    ONEPASS_TRY(budget.pay(dict->entries.size() / 4));
    if (item.is_text()) return dict->find(item.bytes()) != nullptr;
    if (!is_hashable(item)) return not_hashable(item);
    for (const auto& entry : dict->entries) {
      ONEPASS_ASSIGN(const bool same, equal(entry.first, item, budget));
      if (same) return true;
    }
    return false;
  }
  ONEPASS_ASSIGN(const std::vector<Value> items, items_of(container, budget));
  for (const Value& candidate : items) {
    ONEPASS_ASSIGN(const bool same, equal(candidate, item, budget));
    if (same) return true;
  }
  return false;
}

Result<std::vector<Value>> items_of(const Value& value, Budget& budget) {
  if (value.is_undefined()) return std::vector<Value>();
  std::vector<Value> items;
  if (const Sequence* s = value.seq()) {
    if (s->exhausted) return items;
    ONEPASS_TRY(budget.pay(s->items.size()));
    s->exhausted = s->kind == SequenceKind::generator;
    return s->items;
  }
  if (const Dict* d = value.mapping()) {
    ONEPASS_TRY(budget.pay(d->entries.size()));
    for (const auto& entry : d->entries) items.push_back(entry.first);
    return items;
  }
  if (const Text* t = value.text()) {
    ONEPASS_TRY(budget.pay(4 * t->length));
    for (const std::string_view part : code_points(t->bytes)) items.emplace_back(part);
    return items;
  }
  return fail(ErrorCode::invalid_argument, std::string("cannot iterate over ") + value.type_name());
}

Result<std::int64_t> length_of(const Value& value) {
  std::size_t n = 0;
  if (const Text* t = value.text()) {
    n = t->length;
  } else if (const Dict* d = value.mapping()) {
    n = d->entries.size();
  } else if (const Sequence* s = value.seq(); s != nullptr && s->kind != SequenceKind::generator) {
    n = s->items.size();
  } else if (!value.is_undefined()) {
    return fail(ErrorCode::invalid_argument, std::string(value.type_name()) + " has no length");
  }
  return static_cast<std::int64_t>(n);
}

}  // namespace onepass::llm::chat
