#include "history_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "io/safetensors_file.h"

namespace onepass::tool {
namespace {

// An entry is a line of the file.
std::string escaped(const std::string& entry) {
  std::string out;
  for (const char c : entry) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string unescaped(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      out += line[i];
    } else {
      out += line[++i] == 'n' ? '\n' : line[i];
    }
  }
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Error error_of(const std::string& path, const char* what) {
  return make_error(ErrorCode::io, std::string(what) + " " + path + ": " + std::strerror(errno));
}

// Open and locked for this process alone, until it is dropped.
class LockedFile {
 public:
  static Result<LockedFile> open(const std::string& path) {
    while (true) {
      LockedFile file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
      if (file.fd_ < 0) return error_of(path, "open");
      while (::flock(file.fd_, LOCK_EX) != 0) {
        if (errno != EINTR) return error_of(path, "lock");
      }
      // Another process may have put a new file in its place meanwhile.
      struct stat opened = {}, named = {};
      if (::fstat(file.fd_, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
          opened.st_ino == named.st_ino && opened.st_dev == named.st_dev) {
        ::fchmod(file.fd_, 0600);
        return file;
      }
    }
  }
  LockedFile(LockedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  LockedFile& operator=(LockedFile&&) = delete;
  ~LockedFile() {
    if (fd_ >= 0) ::close(fd_);
  }

  Status append(std::string_view text, const std::string& path) const {
    while (!text.empty()) {
      const ssize_t n = ::write(fd_, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return error_of(path, "write");
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
  }

 private:
  explicit LockedFile(int fd) : fd_(fd) {}
  int fd_;
};

// The last entries that fit.
std::string newest(const std::vector<std::string_view>& lines) {
  std::size_t first = lines.size(), bytes = 0;
  while (first > 0 && lines.size() - first < HistoryFile::most_entries) {
    bytes += lines[first - 1].size() + 1;
    if (bytes > HistoryFile::most_bytes) break;
    --first;
  }
  std::string text;
  for (std::size_t i = first; i < lines.size(); ++i) text += std::string(lines[i]) + "\n";
  return text;
}

}  // namespace

std::string HistoryFile::default_path() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string folder = variable("XDG_STATE_HOME");
  if (folder.empty() && !variable("HOME").empty()) folder = variable("HOME") + "/.local/state";
  return folder.empty() ? "" : folder + "/onepass/chat_history";
}

Result<std::vector<std::string>> HistoryFile::entries() const {
  std::vector<std::string> list;
  if (path_.empty()) return list;
  const auto text = io::read_text(path_, 4 * most_bytes);
  if (!text) {
    if (text.error().code == ErrorCode::not_found) return list;
    return text.error();
  }
  const std::string kept = newest(lines_of(*text));
  for (const std::string_view line : lines_of(kept)) list.push_back(unescaped(line));
  return list;
}

Status HistoryFile::add(const std::string& entry) const {
  if (path_.empty() || entry.size() > most_bytes / 4) return {};
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  ONEPASS_ASSIGN(const LockedFile file, LockedFile::open(path_));
  ONEPASS_TRY(file.append(escaped(entry) + "\n", path_));
  ONEPASS_ASSIGN(const std::string text, io::read_text(path_, 4 * most_bytes));
  const std::vector<std::string_view> lines = lines_of(text);
  if (lines.size() <= most_entries + most_entries / 10 && text.size() <= most_bytes) return {};
  // Complete under its name at any time, and only while nobody else writes.
  const std::string temporary = path_ + ".new";
  ::unlink(temporary.c_str());
  {
    ONEPASS_ASSIGN(const LockedFile fresh, LockedFile::open(temporary));
    ONEPASS_TRY(fresh.append(newest(lines), temporary));
  }
  if (::rename(temporary.c_str(), path_.c_str()) != 0) return error_of(path_, "rename");
  return {};
}

}  // namespace onepass::tool
