#include "model/model_template.h"

#include "core/guarded.h"
#include "io/json.h"
#include "io/safetensors_file.h"

namespace onepass::llm {
namespace {

constexpr const char* gguf_key = "tokenizer.chat_template";
constexpr const char* json_key = "chat_template";

Error none_in(const std::string& path, const std::string& looked_for) {
  return make_error(ErrorCode::not_found, path + " has no chat template (" + looked_for + ")");
}

// Empty: the file or the key is not there.
Result<std::string> from_json_file(const std::string& path) {
  const auto text = io::read_text(path, io::max_config_bytes);
  if (!text) {
    if (text.error().code == ErrorCode::not_found) return std::string();
    return text.error();
  }
  ONEPASS_ASSIGN(const io::JsonDocument config, io::JsonDocument::parse(*text));
  const io::Json value = config.root()[json_key];
  if (value.is_null()) return std::string();
  if (const auto single = value.text()) return std::string(*single);
  // Several templates, each with a name.
  for (const io::Json item : value.items()) {
    const auto source = item["template"].text();
    if (item["name"].text().value_or("") == "default" && source) return std::string(*source);
  }
  return fail(ErrorCode::unsupported,
              path + ": chat_template is neither a text nor a list with one named 'default'");
}

}  // namespace

Result<std::string> folder_chat_template(const std::string& folder) {
  return guarded([&]() -> Result<std::string> {
    const auto plain = io::read_text(folder + "/chat_template.jinja", io::max_config_bytes);
    if (plain) return *plain;
    if (plain.error().code != ErrorCode::not_found) return plain.error();
    for (const char* file : {"/chat_template.json", "/tokenizer_config.json"}) {
      ONEPASS_ASSIGN(std::string text, from_json_file(folder + file));
      if (!text.empty()) return text;
    }
    return none_in(folder, "chat_template.jinja, or chat_template in tokenizer_config.json");
  });
}

Result<std::string> gguf_chat_template(const io::Gguf& file, const std::string& path) {
  return guarded([&]() -> Result<std::string> {
    if (file.find(gguf_key) == nullptr) return none_in(path, gguf_key);
    ONEPASS_ASSIGN(const std::string_view text, file.text(gguf_key));
    return std::string(text);
  });
}

}  // namespace onepass::llm
