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
//   ONEPASS_ASSIGN(JsonValue config, JsonValue::parse(text));  // small files: all of it as a tree
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

struct JsonMember;

// A whole text as a tree, keys of every object different.
struct JsonValue {
  JsonKind kind = JsonKind::null;
  bool boolean = false;
  bool is_integer = false;    // of 0 or more
  std::uint64_t integer = 0;  // where is_integer
  double number = 0.0;
  std::string text;
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;
  std::uint64_t at = 0;  // offset in the file

  static Result<JsonValue> parse(std::string_view text);
  // Null: not there, or this is no object.
  const JsonValue* find(std::string_view key) const noexcept;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

}  // namespace onepass::io
