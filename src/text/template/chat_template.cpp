#include "text/template/chat_template.h"

#include <time.h>

#include "core/guarded.h"
#include "text/template/interpreter.h"
#include "text/template/lexer.h"
#include "text/template/parser.h"
#include "text/tokenizer/unicode.h"

namespace onepass::llm {

using chat::Value;

struct ChatTemplate::State {
  std::string source;
  chat::Body body;
  ChatLimits limits;
};

Result<ChatTemplate> ChatTemplate::parse(std::string_view text, const ChatLimits& limits) {
  return guarded([&]() -> Result<ChatTemplate> {
    if (text.size() > limits.template_bytes) {
      return fail(ErrorCode::limit, "chat template: " + std::to_string(text.size()) +
                                        " bytes, at most " + std::to_string(limits.template_bytes) +
                                        " are allowed");
    }
    if (!text::is_valid_utf8(text)) return fail(ErrorCode::parse, "chat template: no valid UTF-8");
    auto state = std::make_shared<State>();
    state->source = chat::normalized(text);
    state->limits = limits;
    ONEPASS_ASSIGN(state->body, chat::parse_template(state->source, limits.depth));
    return ChatTemplate(std::move(state));
  });
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  return guarded([&]() -> Result<std::string> {
    const std::int64_t now = input.now ? *input.now : static_cast<std::int64_t>(time(nullptr));
    chat::Interpreter interpreter(state_->source, state_->limits, now);
    std::vector<Value> messages;
    for (const ChatMessage& message : input.messages) {
      std::vector<std::pair<Value, Value>> entries = {{"role", message.role},
                                                      {"content", message.content}};
      for (const auto& [name, value] : message.fields) entries.emplace_back(Value(name), value);
      messages.push_back(Value::dict(std::move(entries)));
    }
    interpreter.define("messages", Value::list(std::move(messages)));
    interpreter.define("tools", input.tools);
    interpreter.define("documents", Value());
    interpreter.define("add_generation_prompt", input.add_generation_prompt);
    interpreter.define("bos_token", input.bos_token);
    interpreter.define("eos_token", input.eos_token);
    for (const auto& [name, value] : input.variables) interpreter.define(name, value);
    return interpreter.run(state_->body);
  });
}

}  // namespace onepass::llm
