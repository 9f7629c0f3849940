// Typed access to a JSON document, with the path of what is wrong in every error.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onepass/result.h"

namespace onepass::llm::text {

tl::unexpected<Error> json_error(ErrorCode code, std::string field, std::string message,
                                 const char* file = __builtin_FILE(), int line = __builtin_LINE());

// A value and the path that leads to it, e.g. "model.merges[3]". Views of a JsonDocument.
class Json {
 public:
  Json() = default;
  Json(simdjson::dom::element element, std::string path)
      : element_(element), path_(std::move(path)), present_(true) {}

  const std::string& path() const noexcept { return path_; }
  // Missing keys and null are the same.
  bool is_null() const noexcept { return !present_ || element_.is_null(); }
  bool is_string() const noexcept { return present_ && element_.is_string(); }
  bool is_object() const noexcept { return present_ && element_.is_object(); }
  bool is_array() const noexcept { return present_ && element_.is_array(); }

  // The member, or a null value with its path; this must be an object or null.
  Json operator[](std::string_view key) const;

  Result<std::string_view> text() const;
  Result<std::string_view> text_or(std::string_view fallback) const;
  Result<bool> boolean_or(bool fallback) const;
  Result<std::uint32_t> index() const;
  Result<std::vector<Json>> items() const;  // of an array
  Result<simdjson::dom::object> object() const;
  Result<simdjson::dom::array> array() const;

  tl::unexpected<Error> error(ErrorCode code, std::string message,
                              const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) const {
    return json_error(code, path_, std::move(message), file, line);
  }

 private:
  tl::unexpected<Error> wrong_type(const char* expected) const;

  simdjson::dom::element element_;
  std::string path_;
  bool present_ = false;
};

class JsonDocument {
 public:
  // Rejects objects that name a key twice.
  static Result<JsonDocument> parse(std::string_view text);
  const Json& root() const noexcept { return root_; }

 private:
  std::unique_ptr<simdjson::dom::parser> parser_;
  Json root_;
};

}  // namespace onepass::llm::text
