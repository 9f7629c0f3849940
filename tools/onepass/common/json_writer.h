// Writes JSON text.
//
//   JsonWriter json;
//   json.begin_object().key("text").value("Once").key("ids").begin_array().value(3u).end_array();
//   json.end_object();
//   put(json.text() + "\n");
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/shortest.h"

namespace onepass::tool {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name) {
    value(name);
    text_ += ':';
    first_ = true;
    return *this;
  }

  // Bytes that are no UTF-8 become U+FFFD.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(std::same_as<bool> auto b) { return raw(b ? "true" : "false"); }
  JsonWriter& value(std::integral auto n) requires(!std::same_as<decltype(n), bool>) {
    return raw(std::to_string(n));
  }
  // The fewest digits that give the same number back, 0.7 for 0.7f; null when it is not finite.
  JsonWriter& value(std::floating_point auto n) {
    return raw(std::isfinite(n) ? shortest(n) : "null");
  }
  JsonWriter& null() { return raw("null"); }
  // A number as it is written.
  JsonWriter& number(std::string_view text) { return raw(text); }

  const std::string& text() const noexcept { return text_; }

 private:
  JsonWriter& raw(std::string_view token) {
    if (!first_) text_ += ',';
    first_ = false;
    text_ += token;
    return *this;
  }
  JsonWriter& open(char bracket) {
    raw({&bracket, 1});
    first_ = true;
    return *this;
  }
  JsonWriter& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }

  std::string text_;
  bool first_ = true;
};

// The text with every byte that is no part of a code point replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace onepass::tool
