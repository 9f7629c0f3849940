#include "json_writer.h"

#include "text/tokenizer/unicode.h"

namespace onepass::tool {

std::string valid_utf8(std::string_view text) {
  return llm::text::is_valid_utf8(text) ? std::string(text) : llm::text::replace_invalid(text);
}

JsonWriter& JsonWriter::value(std::string_view text) {
  raw("\"");
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '"':
        text_ += "\\\"";
        break;
      case '\\':
        text_ += "\\\\";
        break;
      case '\n':
        text_ += "\\n";
        break;
      case '\t':
        text_ += "\\t";
        break;
      case '\r':
        text_ += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) {
          text_ += c;
        } else {
          char escape[8];
          std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c) & 0xFFu);
          text_ += escape;
        }
    }
  }
  text_ += '"';
  return *this;
}

}  // namespace onepass::tool
