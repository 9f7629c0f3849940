#include "chat_file.h"

#include "common/json_writer.h"
#include "core/os.h"
#include "io/json.h"
#include "io/limits.h"
#include "io/safetensors_file.h"

namespace onepass::tool {

Status save_chat(const std::string& path, const std::vector<llm::ChatMessage>& messages) {
  JsonWriter json;
  json.begin_object().key("messages").begin_array();
  for (const llm::ChatMessage& message : messages) {
    json.begin_object().key("role").value(message.role);
    json.key("content").value(message.content.bytes()).end_object();
  }
  json.end_array().end_object();
  return os::write_file(path, json.text() + "\n");
}

Result<std::vector<llm::ChatMessage>> load_chat(const std::string& path) {
  ONEPASS_ASSIGN(const std::string text, io::read_text(path, io::max_json_bytes));
  ONEPASS_ASSIGN(const io::JsonDocument document, io::JsonDocument::parse(text));
  ONEPASS_ASSIGN(const io::Json::Items items, document.root()["messages"].array());
  std::vector<llm::ChatMessage> messages;
  for (const io::Json item : items) {
    ONEPASS_ASSIGN(const std::string_view role, item["role"].text());
    ONEPASS_ASSIGN(const std::string_view content, item["content"].text());
    if (role != "system" && role != "user" && role != "assistant") {
      return item["role"].error(ErrorCode::parse,
                                "'" + std::string(role) + "', expected system, user or assistant");
    }
    messages.push_back({std::string(role), llm::chat::Value(std::string(content))});
  }
  return messages;
}

}  // namespace onepass::tool
