// What /set changes in a chat.
#pragma once

#include <string>

#include "chat/conversation.h"

namespace onepass::tool {

// A line for each.
std::string list_settings(const ChatSettings& settings);
// "temp 0.5" or "temp=0.5"; an error changes nothing.
Status change_setting(ChatSettings& settings, const std::string& text);

}  // namespace onepass::tool
