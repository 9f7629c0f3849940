#include "llm/tokenizer/json.h"

#include <unordered_set>

namespace onepass::llm::text {
namespace {

constexpr std::size_t max_json_bytes = std::size_t{256} << 20;
constexpr std::size_t max_depth = 64;

const char* type_name(simdjson::dom::element_type type) {
  using Type = simdjson::dom::element_type;
  switch (type) {
    case Type::ARRAY:
      return "an array";
    case Type::OBJECT:
      return "an object";
    case Type::STRING:
      return "a string";
    case Type::BOOL:
      return "a boolean";
    case Type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// The depth is limited by the parser.
Status check_keys(simdjson::dom::element element, const std::string& path) {
  simdjson::dom::object object;
  simdjson::dom::array array;
  if (element.get(object) == simdjson::SUCCESS) {
    std::unordered_set<std::string_view> keys;
    for (const auto& [key, value] : object) {
      if (!keys.insert(key).second) {
        return json_error(ErrorCode::parse, path, "key '" + std::string(key) + "' appears twice");
      }
      if (value.is_object() || value.is_array()) {
        ONEPASS_TRY(
            check_keys(value, path.empty() ? std::string(key) : path + "." + std::string(key)));
      }
    }
  } else if (element.get(array) == simdjson::SUCCESS) {
    for (const auto& value : array) {
      if (value.is_object() || value.is_array()) ONEPASS_TRY(check_keys(value, path + "[]"));
    }
  }
  return {};
}

}  // namespace

tl::unexpected<Error> json_error(ErrorCode code, std::string field, std::string message,
                                 const char* file, int line) {
  Error error = make_error(code, std::move(message), file, line);
  error.field = std::move(field);
  return tl::unexpected<Error>(std::move(error));
}

tl::unexpected<Error> Json::wrong_type(const char* expected) const {
  return error(ErrorCode::parse, std::string("expected ") + expected + ", got " +
                                     (present_ ? type_name(element_.type()) : "nothing"));
}

Json Json::operator[](std::string_view key) const {
  Json member;
  member.path_ = path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  if (!present_) return member;
  simdjson::dom::object object;
  if (element_.get(object) == simdjson::SUCCESS &&
      object.at_key(key).get(member.element_) == simdjson::SUCCESS) {
    member.present_ = true;
  }
  return member;
}

Result<std::string_view> Json::text() const {
  std::string_view value;
  if (!present_ || element_.get(value) != simdjson::SUCCESS) return wrong_type("a string");
  return value;
}

Result<std::string_view> Json::text_or(std::string_view fallback) const {
  if (is_null()) return fallback;
  return text();
}

Result<bool> Json::boolean_or(bool fallback) const {
  if (is_null()) return fallback;
  bool value = false;
  if (element_.get(value) != simdjson::SUCCESS) return wrong_type("a boolean");
  return value;
}

Result<std::uint32_t> Json::index() const {
  std::uint64_t value = 0;
  if (!present_ || element_.get(value) != simdjson::SUCCESS) {
    return wrong_type("a number that is not negative");
  }
  if (value > 0xFFFFFFFEu) return error(ErrorCode::limit, std::to_string(value) + " is too large");
  return static_cast<std::uint32_t>(value);
}

Result<simdjson::dom::object> Json::object() const {
  simdjson::dom::object value;
  if (!present_ || element_.get(value) != simdjson::SUCCESS) return wrong_type("an object");
  return value;
}

Result<simdjson::dom::array> Json::array() const {
  simdjson::dom::array value;
  if (!present_ || element_.get(value) != simdjson::SUCCESS) return wrong_type("an array");
  return value;
}

Result<std::vector<Json>> Json::items() const {
  ONEPASS_ASSIGN(const simdjson::dom::array values, array());
  std::vector<Json> list;
  for (const auto& value : values) {
    list.emplace_back(value, path_ + "[" + std::to_string(list.size()) + "]");
  }
  return list;
}

Result<JsonDocument> JsonDocument::parse(std::string_view text) {
  if (text.size() > max_json_bytes) {
    return json_error(
        ErrorCode::limit, "",
        std::to_string(text.size()) + " bytes of JSON, at most " + std::to_string(max_json_bytes));
  }
  JsonDocument document;
  document.parser_ = std::make_unique<simdjson::dom::parser>();
  simdjson::error_code code =
      document.parser_->allocate(std::max<std::size_t>(text.size(), 64), max_depth);
  simdjson::dom::element root;
  if (code == simdjson::SUCCESS) {
    code = document.parser_->parse(text.data(), text.size(), true).get(root);
  }
  if (code == simdjson::MEMALLOC) return fail(ErrorCode::out_of_memory, "out of memory");
  if (code != simdjson::SUCCESS) {
    return fail(ErrorCode::parse, std::string("JSON: ") + simdjson::error_message(code));
  }
  ONEPASS_TRY(check_keys(root, ""));
  document.root_ = Json(root, "");
  return document;
}

}  // namespace onepass::llm::text
