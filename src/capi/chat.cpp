#include <mutex>
#include <string_view>
#include <vector>

#include "capi/handles.h"
#include "model/model_files.h"
#include "run/chat_session.h"
#include "text/template/chat_template.h"

namespace onepass::capi {
namespace {

using llm::ChatTemplate;
using llm::chat::Value;

Result<ChatTemplate> read_template(const std::string& path) {
  ONEPASS_ASSIGN(const std::unique_ptr<llm::ModelFiles> files, llm::ModelFiles::open(path));
  ONEPASS_ASSIGN(const std::string text, files->chat_template());
  return ChatTemplate::parse(text);
}

const Result<ChatTemplate>& template_of(const onepass_model& model) {
  std::call_once(model.chat.once, [&] { model.chat.value.emplace(read_template(model.path)); });
  return *model.chat.value;
}

Error wrong(const std::string& what, const char* expected) {
  return bad_argument(what + ": expected " + expected);
}

// Names and values of a JSON object; null: none.
Result<std::vector<std::pair<std::string, Value>>> entries(const Value& value,
                                                           const std::string& what) {
  const llm::chat::Dict* dict = value.mapping();
  if (dict == nullptr) return wrong(what, "a JSON object");
  std::vector<std::pair<std::string, Value>> list;
  for (const auto& [key, entry] : dict->entries) list.emplace_back(key.text()->bytes, entry);
  return list;
}

Result<Value> json(const char* text, const char* what) {
  Result<Value> value = Value::from_json(text);
  if (value) return value;
  Error error = std::move(value).error();
  error.message = std::string(what) + ": " + error.message;
  return error;
}

Result<std::vector<llm::ChatMessage>> messages_of(const char* text) {
  ONEPASS_ASSIGN(const Value value, json(text, "messages"));
  const llm::chat::Sequence* list = value.seq();
  if (list == nullptr) return wrong("messages", "a JSON list");
  std::vector<llm::ChatMessage> messages;
  for (const Value& item : list->items) {
    const std::string what = "messages[" + std::to_string(messages.size()) + "]";
    ONEPASS_ASSIGN(auto fields, entries(item, what));
    llm::ChatMessage message;
    for (auto& [key, field] : fields) {
      if (key == "role") {
        if (field.text() == nullptr) return wrong(what + ".role", "a text");
        message.role = field.text()->bytes;
      } else if (key == "content") {
        message.content = std::move(field);
      } else {
        message.fields.emplace_back(key, std::move(field));
      }
    }
    if (message.role.empty()) return wrong(what, "a role");
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace
}  // namespace onepass::capi

using namespace onepass;
using namespace onepass::capi;

extern "C" {

onepass_result onepass_chat_prompt(const onepass_model* model, const char* messages,
                                   const onepass_chat_options* options, char* text, size_t capacity,
                                   size_t* n) {
  return call([&]() -> Status {
    ONEPASS_TRY(require(model, "model"));
    ONEPASS_TRY(require(messages, "messages"));
    ONEPASS_TRY(require(n, "n"));
    ONEPASS_ASSIGN(const onepass_chat_options o, take_options(options, "onepass_chat_options"));
    llm::ChatInput input;
    ONEPASS_ASSIGN(input.messages, messages_of(messages));
    if (o.tools != nullptr) {
      ONEPASS_ASSIGN(input.tools, json(o.tools, "tools"));
    }
    if (o.variables != nullptr) {
      ONEPASS_ASSIGN(const Value variables, json(o.variables, "variables"));
      ONEPASS_ASSIGN(input.variables, entries(variables, "variables"));
    }
    input.add_generation_prompt = o.no_answer == 0;
    if (model->text.tokenizer) llm::set_special_tokens(input, *model->text.tokenizer);
    std::string made;
    if (o.chat_template != nullptr) {
      ONEPASS_ASSIGN(const ChatTemplate given, ChatTemplate::parse(o.chat_template));
      ONEPASS_ASSIGN(made, given.render(input));
    } else {
      const Result<ChatTemplate>& own = template_of(*model);
      if (!own) return own.error();
      ONEPASS_ASSIGN(made, own->render(input));
    }
    return copy_out(made, text, capacity, n);
  });
}

}  // extern "C"
