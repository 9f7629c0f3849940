// A conversation with a model. What the cache has of it is used again in every turn.
//
//   ONEPASS_ASSIGN(ChatSession chat, ChatSession::create(std::move(model), std::move(template)));
//   ONEPASS_ASSIGN(const ChatReply reply, chat.ask("Hello", {}, [](std::string_view text) {
//     return write(text);
//   }));
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "run/generate.h"
#include "text/template/chat_template.h"

namespace onepass::llm {

struct ChatReply {
  std::string text;                 // without white space in front
  std::uint32_t prompt_tokens = 0;  // of the whole conversation
  std::uint32_t reused_tokens = 0;  // of them, in the cache already
  GenerateReport report;
};

// The names of the tokens that templates write at the start and end of texts.
void set_special_tokens(ChatInput& input, const Tokenizer& tokenizer);
// A rendered prompt as ids: control tokens in it count as such.
Result<std::vector<std::uint32_t>> encode_chat(const Tokenizer& tokenizer,
                                               std::string_view rendered);

// Move-only; one thread at a time.
class ChatSession {
 public:
  // A model without a tokenizer is an error.
  static Result<ChatSession> create(TextModel model, ChatTemplate chat_template,
                                    const DecoderOptions& options = {});

  // Messages, tools and variables; changes count from the next turn on.
  ChatInput& input() noexcept { return input_; }
  const Generator& generator() const noexcept { return generator_; }

  // Adds the user's message and the answer. A cancelled answer is kept as far as it came; where
  // that is nothing, and after an error, the conversation is as before. One that the context cannot
  // hold is an error of code limit.
  using Each = std::function<Status(std::string_view text)>;
  Result<ChatReply> ask(std::string user, const GenerateOptions& options, const Each& each);
  // Drops the oldest turns, never system messages, until the prompt with this message leaves that
  // many tokens of the context free, or only the message is left. How many messages that were.
  // After an error the conversation is as before.
  Result<std::size_t> make_room(const std::string& user, std::uint32_t free);
  // The conversation as the model would get it, with the start of an answer.
  Result<std::string> prompt() const { return template_.render(input_); }

 private:
  ChatSession(Generator generator, ChatTemplate chat_template)
      : generator_(std::move(generator)), template_(std::move(chat_template)) {}
  Result<std::vector<std::uint32_t>> prompt_ids() const;
  Result<ChatReply> answer(const GenerateOptions& options, const Each& each);

  Generator generator_;
  ChatTemplate template_;
  ChatInput input_;
  std::vector<std::uint32_t> cached_;  // the ids in the generator's cache
};

}  // namespace onepass::llm
