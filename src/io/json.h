// Reads untrusted JSON text, strictly by RFC 8259. Every error carries the byte offset in the file
// and the field; an object with a key twice is an error.
//
//   JsonReader json(text, 8);                                  // the text starts at byte 8
//   ONEPASS_TRY(json.begin_object("header"));
//   while (true) {
//     ONEPASS_ASSIGN(const std::optional<std::string_view> key, json.next_key("header"));
//     if (!key) break;
//     ONEPASS_TRY(json.skip(*key));
//   }
//
//   ONEPASS_ASSIGN(const JsonDocument document, JsonDocument::parse(text));  // all of it as a tree
//   ONEPASS_ASSIGN(const std::uint64_t width, document.root()["hidden_size"].integer(65536));
#pragma once

#include <cstdint>
#include <forward_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/limits.h"
#include "onepass/result.h"

namespace onepass::io {

enum class JsonKind : std::uint8_t { null, boolean, number, string, array, object };
const char* name(JsonKind kind) noexcept;

// Pulls one value after the other; nothing is stored but strings with escapes.
class JsonReader {
 public:
  // base: offset of the text in its file.
  explicit JsonReader(std::string_view text, std::uint64_t base = 0,
                      std::uint32_t max_depth = max_json_depth)
      : text_(text), base_(base), max_depth_(max_depth) {}

  // Offset in the file of the next value.
  std::uint64_t offset() noexcept;
  Result<JsonKind> kind(std::string_view field);

  Status begin_object(std::string_view field);
  // The next key, its colon read too; none at the end of the object.
  Result<std::optional<std::string_view>> next_key(std::string_view field);
  Status begin_array(std::string_view field);
  // False at the end of the array.
  Result<bool> next_item(std::string_view field);

  // Valid as long as the text and what take_decoded() gives.
  Result<std::string_view> string(std::string_view field);
  // Digits only: no sign, fraction or exponent.
  Result<std::uint64_t> integer(std::string_view field);
  Result<double> number(std::string_view field);
  // A number as it is written.
  Result<std::string_view> number_text(std::string_view field);
  Result<bool> boolean(std::string_view field);
  Status null(std::string_view field);
  // Any value. Keys of objects in it may repeat.
  Status skip(std::string_view field);
  // Nothing but white space is left.
  Status end(std::string_view field);

  // The strings that had escapes; those handed out stay where they are.
  std::forward_list<std::string> take_decoded() noexcept { return std::move(decoded_); }

 private:
  char peek() noexcept;  // after white space; 0 at the end
  tl::unexpected<Error> fail_here(std::string message, std::string_view field,
                                  ErrorCode code = ErrorCode::parse,
                                  const char* file = __builtin_FILE(), int line = __builtin_LINE());
  tl::unexpected<Error> unexpected(const char* expected, std::string_view field);
  Status open(char bracket, const char* what, std::string_view field);
  Result<bool> next(char close, std::string_view field);
  Result<std::string_view> decode(std::size_t begin, std::string_view field);
  Result<std::uint32_t> hex4(std::string_view field);
  bool literal(std::string_view word) noexcept;

  std::string_view text_;
  std::uint64_t base_;
  std::uint32_t max_depth_;
  std::size_t at_ = 0;
  std::uint32_t depth_ = 0;
  bool first_ = false;  // nothing of the innermost open container was read yet
  std::forward_list<std::string> decoded_;
};

struct JsonEntry;  // of the tree behind Json

// A value of a document, or a key that is not there: then it remembers where one looked, so that
// what is asked of it says which key is missing. Valid as long as its document.
class Json {
 public:
  Json() = default;  // not there, of no document

  bool is_missing() const noexcept { return !present_; }
  // A missing key counts as null.
  JsonKind kind() const noexcept;
  bool is(JsonKind kind) const noexcept { return present_ && this->kind() == kind; }
  bool is_null() const noexcept { return kind() == JsonKind::null; }
  // Offset in the file; Error::no_offset where it is not there.
  std::uint64_t at() const noexcept;
  // E.g. "model.merges[3]"; empty: the whole text. Long keys are cut.
  std::string path() const;

  // The member of an object. Looks at one after the other.
  Json operator[](std::string_view key) const;
  class Items;
  class Members;
  // Nothing where this is no array, or no object.
  Items items() const noexcept;
  Members members() const noexcept;
  std::size_t size() const noexcept;  // of items() or members()

  // Typed, or an error with path and offset.
  Result<std::string_view> text() const;
  Result<std::string_view> text_or(std::string_view fallback) const;  // where null
  Result<bool> boolean() const;
  Result<bool> boolean_or(bool fallback) const;  // where null
  // Digits only: no sign, fraction or exponent.
  Result<std::uint64_t> integer(std::uint64_t max = ~std::uint64_t{0}) const;
  Result<double> number() const;                 // beyond the range of double: infinite
  Result<std::string_view> number_text() const;  // as it is written
  Result<Items> array() const;
  Result<Members> object() const;

  tl::unexpected<Error> error(ErrorCode code, std::string message,
                              const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) const;

 private:
  friend class JsonDocument;
  Json(const JsonEntry* entries, std::uint32_t index)
      : entries_(entries), index_(index), present_(true) {}
  const JsonEntry& entry() const noexcept;
  tl::unexpected<Error> wrong_kind(const char* expected, const char* file = __builtin_FILE(),
                                   int line = __builtin_LINE()) const;

  const JsonEntry* entries_ = nullptr;
  std::uint32_t index_ = 0;  // where it is missing: what it was looked for in
  bool present_ = false;
  std::string missing_;  // path below entries_[index_]
};

struct JsonMember;

// Ranges for loops: `for (const Json item : value.items())`.
class Json::Items {
 public:
  class Iterator {
   public:
    Json operator*() const { return Json(entries_, index_); }
    Iterator& operator++() noexcept;
    bool operator!=(const Iterator& other) const noexcept { return index_ != other.index_; }

   private:
    friend class Items;
    Iterator(const JsonEntry* entries, std::uint32_t index) : entries_(entries), index_(index) {}
    const JsonEntry* entries_;
    std::uint32_t index_;
  };
  Iterator begin() const noexcept { return {entries_, begin_}; }
  Iterator end() const noexcept { return {entries_, end_}; }

 private:
  friend class Json;
  Items(const JsonEntry* entries, std::uint32_t begin, std::uint32_t end)
      : entries_(entries), begin_(begin), end_(end) {}
  const JsonEntry* entries_;
  std::uint32_t begin_, end_;
};

class Json::Members {
 public:
  class Iterator {
   public:
    JsonMember operator*() const;
    Iterator& operator++() noexcept;
    bool operator!=(const Iterator& other) const noexcept { return key_ != other.key_; }

   private:
    friend class Members;
    Iterator(const JsonEntry* entries, std::uint32_t key) : entries_(entries), key_(key) {}
    const JsonEntry* entries_;
    std::uint32_t key_;
  };
  Iterator begin() const noexcept { return {entries_, begin_}; }
  Iterator end() const noexcept { return {entries_, end_}; }

 private:
  friend class Json;
  Members(const JsonEntry* entries, std::uint32_t begin, std::uint32_t end)
      : entries_(entries), begin_(begin), end_(end) {}
  const JsonEntry* entries_;
  std::uint32_t begin_, end_;
};

struct JsonMember {
  std::string_view key;
  Json value;
};

// A whole text as a tree, keys of every object different. 24 bytes per key and value; the text
// must outlive it.
class JsonDocument {
 public:
  static Result<JsonDocument> parse(std::string_view text);
  JsonDocument();
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  // Missing where nothing was parsed.
  Json root() const;

 private:
  std::vector<JsonEntry> entries_;
  std::forward_list<std::string> decoded_;
};

}  // namespace onepass::io
