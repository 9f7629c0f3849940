// A conversation in a file, as JSON.
#pragma once

#include <string>
#include <vector>

#include "text/template/chat_template.h"

namespace onepass::tool {

// The file appears only when it is complete.
Status save_chat(const std::string& path, const std::vector<llm::ChatMessage>& messages);
// What save_chat wrote: messages with a role and a text. Anything else is an error.
Result<std::vector<llm::ChatMessage>> load_chat(const std::string& path);

}  // namespace onepass::tool
