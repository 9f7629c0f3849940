#include "message_source.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <utility>

#include "chat/line_editor.h"
#include "common/terminal.h"

namespace onepass::tool {
namespace {

constexpr std::size_t max_line_bytes = std::size_t{64} << 20;

// Lines of stdin, without their ends.
class PlainLines final : public MessageSource {
 public:
  Result<std::optional<std::string>> next(const std::string& prompt) override {
    if (stdin_is_terminal()) std::cerr << prompt << std::flush;
    while (true) {
      if (const std::size_t end = buffer_.find('\n', looked_at_); end != buffer_.npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        looked_at_ = 0;
        if (line.ends_with('\r')) line.pop_back();
        return std::optional(std::move(line));
      }
      looked_at_ = buffer_.size();
      if (buffer_.size() > max_line_bytes) {
        return fail(ErrorCode::limit, "a line of stdin has more than 64 MiB");
      }
      if (!wait_for_stdin()) {
        return fail(ErrorCode::cancelled, "interrupted while reading stdin");
      }
      char part[4096];
      const ssize_t n = ::read(STDIN_FILENO, part, sizeof part);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(ErrorCode::io, std::string("read stdin: ") + std::strerror(errno));
      if (n == 0) {
        if (buffer_.empty()) return std::optional<std::string>();
        buffer_ += '\n';
        continue;
      }
      buffer_.append(part, static_cast<std::size_t>(n));
    }
  }
  void remember(const std::string&) override {}

 private:
  std::string buffer_;
  std::size_t looked_at_ = 0;
};

class EditedLines final : public MessageSource {
 public:
  explicit EditedLines(HistoryFile history)
      : history_(std::move(history)), editor_(colour_on(STDERR_FILENO)) {
    const auto entries = history_.entries();
    if (entries) {
      editor_.remember(*entries);
    } else {
      warn(entries.error());
    }
  }
  Result<std::optional<std::string>> next(const std::string& prompt) override {
    return editor_.line(prompt);
  }
  void remember(const std::string& message) override {
    editor_.remember({&message, 1});
    if (const Status added = history_.add(message); !added) warn(added.error());
  }

 private:
  // Once: a chat goes on without its history.
  void warn(const Error& error) {
    if (std::exchange(warned_, true)) return;
    std::cerr << "onepass: warning: no history: " << error.message << '\n';
  }

  HistoryFile history_;
  LineEditor editor_;
  const KeptInput kept_;  // between two lines; behind the editor, which sets the terminal up
  bool warned_ = false;
};

}  // namespace

std::unique_ptr<MessageSource> open_messages(HistoryFile history) {
  if (LineEditor::is_possible()) return std::make_unique<EditedLines>(std::move(history));
  return std::make_unique<PlainLines>();
}

}  // namespace onepass::tool
