// The tree: entries in the order of the text. An object has an entry per key, each before its
// value.
#include <algorithm>
#include <span>

#include "core/guarded.h"
#include "io/json.h"
#include "io/numbers.h"
#include "io/reader.h"

namespace onepass::io {

struct JsonEntry {
  const char* text = nullptr;  // of a string, key or number
  std::uint32_t size = 0;      // its bytes; else the number of items or members, or 1 for true
  std::uint32_t at = 0;        // offset in the file
  std::uint32_t next = 0;      // the entry behind this value
  JsonKind kind = JsonKind::null;

  std::string_view view() const noexcept { return {text, size}; }
};

namespace {

std::string joined(std::string path, std::string_view key) {
  if (!path.empty() && !key.empty()) path += '.';
  return path + clipped(key);
}

// The way from the root to an entry; to the value that was being read where `to` is none.
std::string path_to(std::span<const JsonEntry> entries, std::optional<std::uint32_t> to) {
  std::string path;
  const auto is_passed = [&](std::uint32_t i) {
    return i < entries.size() && entries[i].next != 0 && (!to || entries[i].next <= *to);
  };
  for (std::uint32_t at = 0; at < entries.size() && at != to;) {
    const std::uint32_t key = entries[at].kind == JsonKind::object ? 1 : 0;
    if (key == 0 && entries[at].kind != JsonKind::array) break;
    std::uint32_t n = 0, child = at + 1;
    for (; is_passed(child + key); ++n) child = entries[child + key].next;
    if (child >= entries.size()) break;
    if (key == 0) {
      path += "[" + std::to_string(n) + "]";
    } else {
      path = joined(std::move(path), entries[child].view());
    }
    at = child + key;
  }
  return path;
}

class TreeReader {
 public:
  TreeReader(std::string_view text, std::vector<JsonEntry>& entries)
      : json_(text), entries_(entries) {}

  // Depth is bounded by the reader.
  Status read() {
    const auto at = static_cast<std::uint32_t>(json_.offset());
    const std::size_t index = add(JsonKind::null, at);
    ONEPASS_ASSIGN(const JsonKind kind, json_.kind(""));
    entries_[index].kind = kind;
    switch (kind) {
      case JsonKind::object:
        ONEPASS_TRY(read_object(index));
        break;
      case JsonKind::array:
        ONEPASS_TRY(read_array(index));
        break;
      case JsonKind::string: {
        ONEPASS_ASSIGN(const std::string_view text, json_.string(""));
        set_text(index, text);
        break;
      }
      case JsonKind::number: {
        ONEPASS_ASSIGN(const std::string_view text, json_.number_text(""));
        set_text(index, text);
        break;
      }
      case JsonKind::boolean: {
        ONEPASS_ASSIGN(const bool value, json_.boolean(""));
        entries_[index].size = value ? 1 : 0;
        break;
      }
      case JsonKind::null:
        ONEPASS_TRY(json_.null(""));
        break;
    }
    entries_[index].next = static_cast<std::uint32_t>(entries_.size());
    return {};
  }
  Status end() { return json_.end(""); }
  std::forward_list<std::string> take_decoded() noexcept { return json_.take_decoded(); }

 private:
  std::size_t add(JsonKind kind, std::uint32_t at) {
    entries_.push_back({.at = at, .kind = kind});
    return entries_.size() - 1;
  }
  void set_text(std::size_t index, std::string_view text) noexcept {
    entries_[index].text = text.data();
    entries_[index].size = static_cast<std::uint32_t>(text.size());
  }

  Status read_array(std::size_t index) {
    ONEPASS_TRY(json_.begin_array(""));
    while (true) {
      ONEPASS_ASSIGN(const bool more, json_.next_item(""));
      if (!more) return {};
      ONEPASS_TRY(read());
      ++entries_[index].size;
    }
  }

  Status read_object(std::size_t index) {
    ONEPASS_TRY(json_.begin_object(""));
    while (true) {
      ONEPASS_ASSIGN(const std::optional<std::string_view> key, json_.next_key(""));
      if (!key) break;
      const std::size_t k = add(JsonKind::string, 0);
      set_text(k, *key);
      ONEPASS_TRY(read());
      entries_[k].next = static_cast<std::uint32_t>(k + 1);
      ++entries_[index].size;
    }
    return check_keys(index);
  }

  Status check_keys(std::size_t index) const {
    // Its first bytes decide most comparisons of two keys.
    struct Key {
      std::uint64_t start;
      std::uint32_t index;
    };
    std::vector<Key> keys;
    keys.reserve(entries_[index].size);
    for (std::size_t k = index + 1; k < entries_.size(); k = entries_[k + 1].next) {
      std::uint64_t start = 0;
      const std::string_view text = entries_[k].view();
      for (std::size_t i = 0; i < 8; ++i) {
        start = start << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0u);
      }
      keys.push_back({start, static_cast<std::uint32_t>(k)});
    }
    std::sort(keys.begin(), keys.end(), [this](const Key& a, const Key& b) {
      if (a.start != b.start) return a.start < b.start;
      const int order = entries_[a.index].view().compare(entries_[b.index].view());
      return order != 0 ? order < 0 : a.index < b.index;
    });
    const auto twice =
        std::adjacent_find(keys.begin(), keys.end(), [this](const Key& a, const Key& b) {
          return a.start == b.start && entries_[a.index].view() == entries_[b.index].view();
        });
    if (twice == keys.end()) return {};
    const std::uint32_t second = (twice + 1)->index;
    return fail_at(ErrorCode::parse, "the key is there twice", entries_[second + 1].at,
                   joined(path_to(entries_, std::nullopt), entries_[second].view()));
  }

  JsonReader json_;
  std::vector<JsonEntry>& entries_;
};

}  // namespace

JsonDocument::JsonDocument() = default;
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

Result<JsonDocument> JsonDocument::parse(std::string_view text) {
  return guarded([&]() -> Result<JsonDocument> {
    if (text.size() > max_json_bytes) {
      return fail_at(ErrorCode::limit,
                     std::to_string(text.size()) + " bytes of JSON, at most " +
                         std::to_string(max_json_bytes) + " are allowed",
                     Error::no_offset, "");
    }
    JsonDocument document;
    TreeReader reader(text, document.entries_);
    Status read = reader.read();
    if (read) read = reader.end();
    if (!read) {
      Error e = std::move(read).error();
      if (e.field.empty()) e.field = clipped(path_to(document.entries_, std::nullopt));
      return e;
    }
    document.decoded_ = reader.take_decoded();
    return document;
  });
}

Json JsonDocument::root() const { return entries_.empty() ? Json() : Json(entries_.data(), 0); }

const JsonEntry& Json::entry() const noexcept { return entries_[index_]; }

JsonKind Json::kind() const noexcept { return present_ ? entry().kind : JsonKind::null; }
std::uint64_t Json::at() const noexcept { return present_ ? entry().at : Error::no_offset; }

std::string Json::path() const {
  std::string path;
  if (entries_ != nullptr) path = path_to({entries_, entries_[0].next}, index_);
  return present_ ? path : joined(std::move(path), missing_);
}

tl::unexpected<Error> Json::error(ErrorCode code, std::string message, const char* file,
                                  int line) const {
  return fail_at(code, std::move(message), at(), path(), file, line);
}

tl::unexpected<Error> Json::wrong_kind(const char* expected, const char* file, int line) const {
  const std::string got = present_ ? name(entry().kind) : "nothing";
  return error(ErrorCode::parse, "is " + got + ", expected " + expected, file, line);
}

Json Json::operator[](std::string_view key) const {
  for (const JsonMember& member : members()) {
    if (member.key == key) return member.value;
  }
  Json missing = *this;
  missing.present_ = false;
  if (!missing.missing_.empty()) missing.missing_ += '.';
  missing.missing_ += key;
  return missing;
}

Json::Items Json::items() const noexcept {
  const bool array = is(JsonKind::array);
  return {entries_, array ? index_ + 1 : 0, array ? entry().next : 0};
}
Json::Members Json::members() const noexcept {
  const bool object = is(JsonKind::object);
  return {entries_, object ? index_ + 1 : 0, object ? entry().next : 0};
}
std::size_t Json::size() const noexcept {
  return is(JsonKind::array) || is(JsonKind::object) ? entry().size : 0;
}

Json::Items::Iterator& Json::Items::Iterator::operator++() noexcept {
  index_ = entries_[index_].next;
  return *this;
}
Json::Members::Iterator& Json::Members::Iterator::operator++() noexcept {
  key_ = entries_[key_ + 1].next;
  return *this;
}
JsonMember Json::Members::Iterator::operator*() const {
  return {entries_[key_].view(), Json(entries_, key_ + 1)};
}

Result<std::string_view> Json::text() const {
  if (!is(JsonKind::string)) return wrong_kind("a string");
  return entry().view();
}
Result<std::string_view> Json::text_or(std::string_view fallback) const {
  if (is_null()) return fallback;
  return text();
}
Result<bool> Json::boolean() const {
  if (!is(JsonKind::boolean)) return wrong_kind("true or false");
  return entry().size != 0;
}
Result<bool> Json::boolean_or(bool fallback) const {
  if (is_null()) return fallback;
  return boolean();
}

Result<std::uint64_t> Json::integer(std::uint64_t max) const {
  const auto value = is(JsonKind::number) ? whole_value(entry().view()) : std::nullopt;
  if (!value) return wrong_kind("an integer");
  if (*value > max) {
    return error(ErrorCode::limit, "is " + std::to_string(*value) + ", at most " +
                                       std::to_string(max) + " is allowed");
  }
  return *value;
}
Result<double> Json::number() const {
  if (!is(JsonKind::number)) return wrong_kind("a number");
  return decimal_value(entry().view()).value_or(0.0);
}
Result<std::string_view> Json::number_text() const {
  if (!is(JsonKind::number)) return wrong_kind("a number");
  return entry().view();
}
Result<Json::Items> Json::array() const {
  if (!is(JsonKind::array)) return wrong_kind("an array");
  return items();
}
Result<Json::Members> Json::object() const {
  if (!is(JsonKind::object)) return wrong_kind("an object");
  return members();
}

}  // namespace onepass::io
