// chat_render: one JSON object per line of stdin, {"template": TEXT, "messages": [...], ...}, and
// one per line of stdout, {"text": TEXT} or {"error": TEXT, "code": NAME}. "variables" are further
// variables, "now" is the time in seconds.
#include <iostream>
#include <string>

#include "text/template/chat_template.h"

namespace {

using namespace onepass;
using llm::chat::Value;

const Value* find(const Value& object, std::string_view key) {
  return object.mapping() == nullptr ? nullptr : object.mapping()->find(key);
}

llm::ChatMessage message_from(const Value& value) {
  llm::ChatMessage message;
  for (const auto& [key, field] : value.mapping()->entries) {
    if (key.bytes() == "role") {
      message.role = field.bytes();
    } else if (key.bytes() == "content") {
      message.content = field;
    } else {
      message.fields.emplace_back(key.bytes(), field);
    }
  }
  return message;
}

Result<std::string> render(const Value& job) {
  const auto text = [&](std::string_view key) {
    const Value* value = find(job, key);
    return value == nullptr ? std::string() : std::string(value->bytes());
  };
  ONEPASS_ASSIGN(const llm::ChatTemplate chat, llm::ChatTemplate::parse(text("template")));
  llm::ChatInput input;
  if (const Value* messages = find(job, "messages"); messages != nullptr && messages->seq()) {
    for (const Value& message : messages->seq()->items) {
      if (message.mapping() != nullptr) input.messages.push_back(message_from(message));
    }
  }
  if (const Value* tools = find(job, "tools")) input.tools = *tools;
  if (const Value* add = find(job, "add_generation_prompt")) {
    input.add_generation_prompt = llm::chat::truth(*add);
  }
  input.bos_token = text("bos_token");
  input.eos_token = text("eos_token");
  if (const Value* variables = find(job, "variables"); variables && variables->mapping()) {
    for (const auto& [key, value] : variables->mapping()->entries) {
      input.variables.emplace_back(key.bytes(), value);
    }
  }
  if (const Value* now = find(job, "now")) input.now = now->as_integer();
  return chat.render(input);
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const Result<Value> job = Value::from_json(line);
    const Result<std::string> text = job ? render(*job) : Result<std::string>(job.error());
    const Value answer =
        text ? Value::dict({{"text", *text}})
             : Value::dict({{"error", text.error().message}, {"code", name(text.error().code)}});
    llm::chat::Budget budget(~std::uint64_t{0});
    std::cout << llm::chat::to_json(answer, {}, budget).value() << '\n';
  }
}
