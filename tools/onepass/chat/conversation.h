// A chat: messages in, answers out, and the commands between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chat/message_source.h"
#include "run/chat_session.h"

namespace onepass::tool {

// What happens to a message that the context has no room for.
enum class WhenFull : std::uint8_t {
  refuse,   // it is an error; the conversation stays
  drop,     // the oldest turns are dropped, system messages stay
  restart,  // the conversation starts over with it, system messages stay
};
// In the order of the enum.
inline constexpr const char* when_full_names[] = {"refuse", "drop", "restart"};

struct ChatSettings {
  llm::SamplingOptions sampling;
  std::vector<std::string> stop;
  std::uint32_t n = 1024;  // most tokens of an answer
  WhenFull when_full = WhenFull::refuse;
  bool stats = false;        // a line after each answer
  bool wrap = true;          // lines of a terminal between words
  bool show_prompt = false;  // every prompt on stderr
};

// Until the input ends; the exit code. On a terminal lines that begin with / are commands.
Result<int> converse(const ChatSettings& settings, llm::ChatSession session,
                     std::unique_ptr<MessageSource> messages);

}  // namespace onepass::tool
