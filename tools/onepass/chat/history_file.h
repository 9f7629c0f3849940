// What was typed in chats, in a file that several programs may use at a time.
#pragma once

#include <string>
#include <vector>

#include "onepass/result.h"

namespace onepass::tool {

class HistoryFile {
 public:
  // Entries that are kept; the file may have a tenth more between two clearings.
  static constexpr std::size_t most_entries = 1000;
  static constexpr std::size_t most_bytes = 1 << 20;

  // $XDG_STATE_HOME/onepass/chat_history, else below ~/.local/state; empty without a home.
  static std::string default_path();

  // No path: nothing is kept.
  explicit HistoryFile(std::string path) : path_(std::move(path)) {}
  // The oldest first. A file that is not there has none.
  Result<std::vector<std::string>> entries() const;
  // The file is readable by its owner only. What others add meanwhile stays.
  Status add(const std::string& entry) const;

 private:
  std::string path_;
};

}  // namespace onepass::tool
