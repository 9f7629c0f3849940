// Lines that a user types, or that a pipe brings.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "chat/history_file.h"
#include "onepass/result.h"

namespace onepass::tool {

class MessageSource {
 public:
  virtual ~MessageSource() = default;
  // Nothing at the end of the input; an error of code cancelled after Ctrl-C.
  virtual Result<std::optional<std::string>> next(const std::string& prompt) = 0;
  // Called with what should be offered again.
  virtual void remember(const std::string& message) = 0;
};

// Lines that can be edited, where there is a terminal for it; else plain ones, with a prompt where
// stdin is a terminal.
std::unique_ptr<MessageSource> open_messages(HistoryFile history);

}  // namespace onepass::tool
