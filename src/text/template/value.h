// What chat templates compute with: Python's values as far as templates see them.
//
//   ONEPASS_ASSIGN(const Value tools, Value::from_json(R"([{"type": "function"}])"));
//   Value content("Hello");                                     // text is UTF-8
//   Value call = Value::dict({{"name", "add"}, {"arguments", Value::list({1, 2})}});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "onepass/result.h"

namespace onepass::llm::chat {

class Value;
struct Object;  // what only an interpreter makes, and owns
struct Function;

struct Text {
  std::string bytes;       // valid UTF-8
  std::size_t length = 0;  // in code points
  bool markup = false;     // made by the filter `safe` or `escape`
};

enum class SequenceKind : std::uint8_t { list, tuple, range, view, generator };

struct Sequence {
  SequenceKind kind = SequenceKind::list;
  std::vector<Value> items;
  std::uint32_t depth = 1;         // containers around the innermost item
  mutable bool exhausted = false;  // a generator gives its items once
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // keys differ; in order of insertion
  std::uint32_t depth = 1;

  const Value* find(std::string_view key) const noexcept;  // null: not there
};

// A method of a value, not called yet.
struct Method {
  std::shared_ptr<const Value> self;
  const char* name;
};

struct Undefined {
  std::shared_ptr<const std::string> why;  // null: nothing to tell
};
struct None {};

// Immutable, so copies share what they hold; threads may share a copy unless it holds a generator.
class Value {
 public:
  Value() = default;  // None
  Value(bool value) : data_(value) {}
  Value(int value) : data_(std::int64_t{value}) {}
  Value(std::int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  // Bytes that are no UTF-8 become U+FFFD.
  Value(std::string text, bool markup = false);
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::shared_ptr<const Text> text) : data_(std::move(text)) {}
  Value(Method method) : data_(std::move(method)) {}
  Value(Object* object) : data_(object) {}
  Value(const Function* function) : data_(function) {}

  static Value undefined(std::string why = {});
  static Value list(std::vector<Value> items) {
    return sequence(SequenceKind::list, std::move(items));
  }
  static Value tuple(std::vector<Value> items) {
    return sequence(SequenceKind::tuple, std::move(items));
  }
  static Value sequence(SequenceKind kind, std::vector<Value> items);
  // Of equal keys the first keeps its place and the last its value.
  static Value dict(std::vector<std::pair<Value, Value>> entries);
  static Result<Value> from_json(std::string_view json);

  template <class T>
  bool is() const noexcept {
    return std::holds_alternative<T>(data_);
  }
  // Null: this is something else. Valid as long as the value.
  const Text* text() const noexcept { return shared<Text>(); }
  const Sequence* seq() const noexcept { return shared<Sequence>(); }
  const Dict* mapping() const noexcept { return shared<Dict>(); }
  template <class T>
  const T* get() const noexcept {
    return std::get_if<T>(&data_);
  }
  bool is_text() const noexcept { return text() != nullptr; }
  bool is_undefined() const noexcept { return is<Undefined>(); }
  bool is_none() const noexcept { return is<None>(); }
  bool is_number() const noexcept;  // booleans count
  bool is_integer() const noexcept { return is<std::int64_t>() || is<bool>(); }
  bool is_kind(SequenceKind kind) const noexcept { return seq() != nullptr && seq()->kind == kind; }
  double as_real() const noexcept;           // of a number
  std::int64_t as_integer() const noexcept;  // of an integer or a boolean
  std::string_view bytes() const noexcept;   // of a text, else empty

  std::uint32_t depth() const noexcept;  // 0 for what holds nothing
  // As Python names the type, for messages.
  const char* type_name() const noexcept;

 private:
  template <class T>
  const T* shared() const noexcept {
    const auto* p = std::get_if<std::shared_ptr<const T>>(&data_);
    return p == nullptr ? nullptr : p->get();
  }

  std::variant<None, Undefined, bool, std::int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Method, Object*,
               const Function*>
      data_;
};

// How much work a rendering may still do. Every operation pays for what it makes or looks at.
class Budget {
 public:
  explicit Budget(std::uint64_t steps) : steps_(steps), left_(steps) {}
  Status pay(std::uint64_t steps);
  Status pay_bytes(std::size_t bytes) { return pay(bytes / 16 + 1); }
  // The worst case of a search; texts that nearly match everywhere are that slow.
  Status pay_search(std::string_view text, std::string_view part) {
    return pay((text.size() / 16 + 1) * (part.size() / 64 + 1));
  }

 private:
  std::uint64_t steps_, left_;
};

// Truth as `if` sees it.
bool truth(const Value& value) noexcept;
// May be the key of a dict.
bool is_hashable(const Value& value) noexcept;
Error not_hashable(const Value& value);
// Python's ==. Containers are compared item by item.
Result<bool> equal(const Value& a, const Value& b, Budget& budget);
// Negative, 0 or positive; types without an order are an error.
Result<int> compare(const Value& a, const Value& b, Budget& budget);
Result<bool> contains(const Value& container, const Value& item, Budget& budget);
// What `for` visits; a generator is exhausted by it.
Result<std::vector<Value>> items_of(const Value& value, Budget& budget);
Result<std::int64_t> length_of(const Value& value);

// str(value) and repr(value) of Python.
Result<std::string> to_text(const Value& value, Budget& budget);
Result<std::string> to_repr(const Value& value, Budget& budget);

struct JsonStyle {
  bool pretty = false;
  std::string indent;  // of one level, where pretty
  std::string item_separator = ", ", key_separator = ": ";
  bool ascii = false;
  bool sort_keys = false;
};
Result<std::string> to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace onepass::llm::chat
