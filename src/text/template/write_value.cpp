#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "core/guarded.h"
#include "io/json.h"
#include "io/numbers.h"
#include "text/template/object.h"
#include "text/template/text.h"
#include "text/template/value.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm::chat {
namespace {

// Also of the numbers that JSON has, in Python's spelling.
Result<std::string> plain_text(const Value& value) {
  if (value.is_none()) return std::string("None");
  if (value.is<bool>()) return std::string(truth(value) ? "True" : "False");
  if (value.is<std::int64_t>()) return std::to_string(value.as_integer());
  if (value.is<double>()) return real_text(value.as_real());
  if (value.is_undefined()) return std::string();
  return fail(ErrorCode::unsupported, std::string("cannot print a ") + value.type_name());
}

Status write_repr(const Value& value, std::string& out, Budget& budget);

Status write_items(const std::vector<Value>& items, std::string& out, Budget& budget) {
  bool first = true;
  for (const Value& item : items) {
    if (!std::exchange(first, false)) out += ", ";
    ONEPASS_TRY(write_repr(item, out, budget));
  }
  return {};
}

Status write_sequence(const Sequence& s, std::string& out, Budget& budget) {
  switch (s.kind) {
    case SequenceKind::list:
      out += '[';
      ONEPASS_TRY(write_items(s.items, out, budget));
      out += ']';
      return {};
    case SequenceKind::tuple:
      out += '(';
      ONEPASS_TRY(write_items(s.items, out, budget));
      out += s.items.size() == 1 ? ",)" : ")";
      return {};
    case SequenceKind::range:
    case SequenceKind::view:
    case SequenceKind::generator:
      break;
  }
  return fail(ErrorCode::unsupported,
              "cannot print a range, a generator or a view of a dict: make it a list first");
}

Status write_repr(const Value& value, std::string& out, Budget& budget) {
  ONEPASS_TRY(budget.pay_bytes(value.bytes().size()));
  if (const Text* t = value.text()) {
    if (t->markup) return fail(ErrorCode::unsupported, "cannot print a list with safe text in it");
    out += quoted(t->bytes);
    return {};
  }
  if (const Sequence* s = value.seq()) return write_sequence(*s, out, budget);
  if (const Dict* d = value.mapping()) {
    out += '{';
    bool first = true;
    for (const auto& [key, item] : d->entries) {
      if (!std::exchange(first, false)) out += ", ";
      ONEPASS_TRY(write_repr(key, out, budget));
      out += ": ";
      ONEPASS_TRY(write_repr(item, out, budget));
    }
    out += '}';
    return {};
  }
  if (value.is_undefined()) {
    out += "Undefined";
    return {};
  }
  ONEPASS_ASSIGN(const std::string text, plain_text(value));
  out += text;
  return {};
}

class JsonText {
 public:
  JsonText(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  Status write(const Value& value) {
    ONEPASS_TRY(budget_.pay_bytes(value.bytes().size()));
    if (const Text* t = value.text()) {
      write_string(t->bytes);
      return {};
    }
    if (const Dict* d = value.mapping()) return write_dict(*d);
    if (const Sequence* s = value.seq();
        s != nullptr && (s->kind == SequenceKind::list || s->kind == SequenceKind::tuple)) {
      return write_list(*s);
    }
    ONEPASS_ASSIGN(const std::string text, scalar(value));
    out_ += text;
    return {};
  }
  std::string take() { return std::move(out_); }

 private:
  static Result<std::string> scalar(const Value& value) {
    if (value.is_none()) return std::string("null");
    if (value.is<bool>()) return std::string(truth(value) ? "true" : "false");
    if (value.is<std::int64_t>()) return std::to_string(value.as_integer());
    if (value.is<double>()) {
      const double number = value.as_real();
      if (std::isnan(number)) return std::string("NaN");
      if (std::isinf(number)) return std::string(number < 0 ? "-Infinity" : "Infinity");
      return real_text(number);
    }
    return fail(ErrorCode::invalid_argument,
                std::string("tojson: JSON has no form for ") + value.type_name());
  }

  Status write_list(const Sequence& s) {
    if (s.items.empty()) {
      out_ += "[]";
      return {};
    }
    out_ += '[';
    ++level_;
    bool first = true;
    for (const Value& item : s.items) {
      next(first);
      ONEPASS_TRY(write(item));
    }
    --level_;
    new_line();
    out_ += ']';
    return {};
  }

  Status write_dict(const Dict& d) {
    if (d.entries.empty()) {
      out_ += "{}";
      return {};
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : d.entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      for (const auto& entry : d.entries) {
        if (!entry.first.is_text()) {
          return fail(ErrorCode::unsupported, "tojson: only str keys can be sorted");
        }
      }
      ONEPASS_TRY(budget_.pay(entries.size() * 16));
      std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
        return a->first.bytes() < b->first.bytes();
      });
    }
    out_ += '{';
    ++level_;
    bool first = true;
    for (const auto* entry : entries) {
      next(first);
      const Value& key = entry->first;
      if (key.is_text()) {
        write_string(key.bytes());
      } else {
        ONEPASS_ASSIGN(const std::string text, scalar(key));
        write_string(text);
      }
      out_ += style_.key_separator;
      ONEPASS_TRY(write(entry->second));
    }
    --level_;
    new_line();
    out_ += '}';
    return {};
  }

  void next(bool& first) {
    if (!std::exchange(first, false)) out_ += style_.item_separator;
    new_line();
  }
  void new_line() {
    if (!style_.pretty) return;
    out_ += '\n';
    for (std::size_t i = 0; i < level_; ++i) out_ += style_.indent;
  }

  void write_string(std::string_view text) {
    out_ += '"';
    for (const std::string_view part : code_points(text)) {
      const std::uint32_t c = text::decode(part.data(), part.data() + part.size()).value;
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += part;
      } else if (c < 0x20) {
        write_control(c);
      } else if (c > 0x7E && style_.ascii) {
        if (c > 0xFFFF) {
          escape(0xD800 + ((c - 0x10000) >> 10));
          escape(0xDC00 + ((c - 0x10000) & 0x3FF));
        } else if (c == 0x7F) {
          out_ += part;
        } else {
          escape(c);
        }
      } else {
        out_ += part;
      }
    }
    out_ += '"';
  }
  void write_control(std::uint32_t c) {
    constexpr std::string_view codes = "\b\f\n\r\t", letters = "bfnrt";
    const std::size_t known = codes.find(static_cast<char>(c));
    if (known == codes.npos) return escape(c);
    out_ += '\\';
    out_ += letters[known];
  }
  void escape(std::uint32_t unit) {
    char buffer[16];
    std::snprintf(buffer, sizeof buffer, "\\u%04x", unit);
    out_ += buffer;
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string out_;
  std::size_t level_ = 0;
};

Result<Value> number_from(std::string_view text) {
  const char* end = text.data() + text.size();
  if (text.find_first_of(".eE") == text.npos) {
    std::int64_t integer = 0;
    const auto [at, error] = std::from_chars(text.data(), end, integer);
    if (error == std::errc() && at == end) return Value(integer);
    return fail(ErrorCode::limit, "number " + std::string(text) + " does not fit in 64 bits");
  }
  return Value(io::decimal_value(text).value_or(0.0));
}

// The depth is bounded by the reader.
Result<Value> read_json(io::JsonReader& json) {
  constexpr std::string_view field = "json";
  ONEPASS_ASSIGN(const io::JsonKind kind, json.kind(field));
  switch (kind) {
    case io::JsonKind::null:
      ONEPASS_TRY(json.null(field));
      return Value();
    case io::JsonKind::boolean: {
      ONEPASS_ASSIGN(const bool flag, json.boolean(field));
      return Value(flag);
    }
    case io::JsonKind::number: {
      ONEPASS_ASSIGN(const std::string_view text, json.number_text(field));
      return number_from(text);
    }
    case io::JsonKind::string: {
      ONEPASS_ASSIGN(const std::string_view text, json.string(field));
      return Value(text);
    }
    case io::JsonKind::array: {
      std::vector<Value> items;
      ONEPASS_TRY(json.begin_array(field));
      while (true) {
        ONEPASS_ASSIGN(const bool more, json.next_item(field));
        if (!more) return Value::list(std::move(items));
        ONEPASS_ASSIGN(Value item, read_json(json));
        items.push_back(std::move(item));
      }
    }
    case io::JsonKind::object:
      break;
  }
  std::vector<std::pair<Value, Value>> entries;
  ONEPASS_TRY(json.begin_object(field));
  while (true) {
    ONEPASS_ASSIGN(const std::optional<std::string_view> key, json.next_key(field));
    if (!key) return Value::dict(std::move(entries));
    Value name(*key);
    ONEPASS_ASSIGN(Value item, read_json(json));
    entries.emplace_back(std::move(name), std::move(item));
  }
}

}  // namespace

Result<std::string> to_text(const Value& value, Budget& budget) {
  if (const Text* t = value.text()) {
    ONEPASS_TRY(budget.pay_bytes(t->bytes.size()));
    return t->bytes;
  }
  if (value.seq() == nullptr && value.mapping() == nullptr) return plain_text(value);
  return to_repr(value, budget);
}

Result<std::string> to_repr(const Value& value, Budget& budget) {
  std::string out;
  ONEPASS_TRY(write_repr(value, out, budget));
  return out;
}

Result<std::string> to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonText json(style, budget);
  ONEPASS_TRY(json.write(value));
  return json.take();
}

Result<Value> Value::from_json(std::string_view json) {
  return guarded([&]() -> Result<Value> {
    io::JsonReader reader(json);
    ONEPASS_ASSIGN(Value value, read_json(reader));
    ONEPASS_TRY(reader.end("json"));
    return value;
  });
}

}  // namespace onepass::llm::chat
