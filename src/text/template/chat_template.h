// Chat templates: how a model wants its conversations written, in the part of Jinja that published
// models use, with the options that Hugging Face transformers sets.
//
//   ONEPASS_ASSIGN(const ChatTemplate chat, ChatTemplate::parse(text));
//   ChatInput input;
//   input.messages = {{"system", "Be brief."}, {"user", "Hello"}};
//   ONEPASS_ASSIGN(const std::string prompt, chat.render(input));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/limits.h"
#include "text/template/value.h"

namespace onepass::llm {

struct ChatMessage {
  std::string role;
  chat::Value content;  // text, or what else the template understands
  std::vector<std::pair<std::string, chat::Value>> fields = {};  // tool_calls and the like
};

struct ChatInput {
  std::vector<ChatMessage> messages;
  chat::Value tools;                  // a list of dicts, or none
  bool add_generation_prompt = true;  // end with the start of the model's answer
  std::string bos_token, eos_token;
  std::vector<std::pair<std::string, chat::Value>> variables;  // others, e.g. enable_thinking
  std::optional<std::int64_t> now;  // seconds since 1970 for strftime_now; none: the clock's
};

// Immutable; copies share the parsed tree, and threads may share a copy.
class ChatTemplate {
 public:
  // What is not supported is an error of code unsupported, with line and column, unless it stands
  // where it may never be run: then render gives it.
  static Result<ChatTemplate> parse(std::string_view text, const ChatLimits& limits = {});

  // Where the template refuses the conversation, the error has its message.
  Result<std::string> render(const ChatInput& input) const;

 private:
  struct State;
  explicit ChatTemplate(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace onepass::llm
