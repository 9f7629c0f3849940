#include "llm/chat/model_template.h"

#include "core/guarded.h"
#include "io/gguf_file.h"
#include "io/json.h"
#include "io/safetensors_file.h"
#include "llm/synthetic.h"

namespace onepass::llm {
namespace {

constexpr const char* gguf_key = "tokenizer.chat_template";
constexpr const char* json_key = "chat_template";

Error none_in(const std::string& path, const std::string& looked_for) {
  return make_error(ErrorCode::not_found, path + " has no chat template (" + looked_for + ")");
}

// Empty: the file or the key is not there.
Result<std::string> from_json_file(const std::string& path) {
  const auto text = io::read_text(path, io::max_json_bytes);
  if (!text) {
    if (text.error().code == ErrorCode::not_found) return std::string();
    return text.error();
  }
  ONEPASS_ASSIGN(const io::JsonValue config, io::JsonValue::parse(*text));
  const io::JsonValue* value = config.find(json_key);
  if (value == nullptr || value->kind == io::JsonKind::null) return std::string();
  if (value->kind == io::JsonKind::string) return value->text;
  // Several templates, each with a name.
  for (const io::JsonValue& item : value->items) {
    const io::JsonValue *name = item.find("name"), *source = item.find("template");
    if (name != nullptr && name->text == "default" && source != nullptr) return source->text;
  }
  return fail(ErrorCode::unsupported,
              path + ": chat_template is neither a text nor a list with one named 'default'");
}

Result<std::string> from_folder(const std::string& folder) {
  const auto plain = io::read_text(folder + "/chat_template.jinja", io::max_json_bytes);
  if (plain) return *plain;
  if (plain.error().code != ErrorCode::not_found) return plain.error();
  for (const char* file : {"/chat_template.json", "/tokenizer_config.json"}) {
    ONEPASS_ASSIGN(std::string text, from_json_file(folder + file));
    if (!text.empty()) return text;
  }
  return none_in(folder, "chat_template.jinja, or chat_template in tokenizer_config.json");
}

}  // namespace

Result<std::string> read_chat_template(const std::string& path) {
  return guarded([&]() -> Result<std::string> {
    if (path.starts_with(synthetic_prefix)) {
      return fail(ErrorCode::not_found, "synthetic models have no chat template");
    }
    if (io::is_folder(path)) return from_folder(path);
    ONEPASS_ASSIGN(const io::GgufFile file, io::GgufFile::open(path));
    if (file.metadata().find(gguf_key) == nullptr) {
      return none_in(path, std::string("key ") + gguf_key);
    }
    ONEPASS_ASSIGN(const std::string_view text, file.metadata().text(gguf_key));
    return std::string(text);
  });
}

}  // namespace onepass::llm
