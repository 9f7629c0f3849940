#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "core/guarded.h"
#include "core/os.h"

namespace onepass::os {
namespace {

// One call writes at most this much on some systems.
constexpr std::size_t max_write_bytes = std::size_t{1} << 30;
constexpr int max_tries = 100;

tl::unexpected<Error> failed(const char* what, const std::string& path, int error,
                             std::uint64_t offset = Error::no_offset) {
  const ErrorCode code = error == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  Error e = make_error(code, std::string(what) + " " + path + ": " + std::strerror(error));
  e.byte_offset = offset;
  return tl::unexpected<Error>(std::move(e));
}

int open_for_writing(const std::string& path, int flags) {
  int handle = -1;
  do {
    handle = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  } while (handle < 0 && errno == EINTR);
  return handle;
}

}  // namespace

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : handle_(std::exchange(other.handle_, -1)),
      bytes_(std::exchange(other.bytes_, 0)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  drop();
  handle_ = std::exchange(other.handle_, -1);
  bytes_ = std::exchange(other.bytes_, 0);
  path_ = std::move(other.path_);
  temporary_ = std::exchange(other.temporary_, {});
  return *this;
}

AtomicFile::~AtomicFile() { drop(); }

void AtomicFile::drop() noexcept {
  if (handle_ < 0) return;
  ::close(std::exchange(handle_, -1));
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  return guarded([&]() -> Result<AtomicFile> {
    AtomicFile file;
    file.path_ = path;
    // A link stays one: its target is what gets replaced.
    const std::unique_ptr<char, void (*)(void*)> target(realpath(path.c_str(), nullptr), std::free);
    if (target) file.path_ = target.get();
    struct stat info;
    const bool exists = stat(path.c_str(), &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) return failed("create", path, EISDIR);
    if (exists && !S_ISREG(info.st_mode)) {
      file.handle_ = open_for_writing(path, 0);
      if (file.handle_ < 0) return failed("create", path, errno);
      return file;
    }
    static std::atomic<unsigned> count{0};
    for (int i = 0; i < max_tries && file.handle_ < 0; ++i) {
      file.temporary_ = file.path_ + ".tmp" + std::to_string(getpid()) + "_" +
                        std::to_string(count.fetch_add(1, std::memory_order_relaxed));
      file.handle_ = open_for_writing(file.temporary_, O_CREAT | O_EXCL);
      if (file.handle_ < 0 && errno != EEXIST) break;
    }
    if (file.handle_ < 0) return failed("create", path, errno);
    if (exists) static_cast<void>(fchmod(file.handle_, info.st_mode & 07777));
    return file;
  });
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  if (handle_ < 0) return fail(ErrorCode::invalid_state, "write " + path_ + ": it is not open");
  while (!bytes.empty()) {
    const ssize_t n = ::write(handle_, bytes.data(), std::min(bytes.size(), max_write_bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      drop();
      return failed("write", path_, error, bytes_);
    }
    bytes_ += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Status AtomicFile::commit() {
  if (handle_ < 0) return fail(ErrorCode::invalid_state, "commit " + path_ + ": it is not open");
  const bool renamed = !temporary_.empty();
  // Without it a crash of the system soon after may leave an empty file under the name.
  if (renamed && fsync(handle_) != 0 && errno != EINVAL && errno != ENOTSUP) {
    const int error = errno;
    drop();
    return failed("write", path_, error);
  }
  int error = ::close(std::exchange(handle_, -1)) == 0 || errno == EINTR ? 0 : errno;
  if (error == 0 && renamed && std::rename(temporary_.c_str(), path_.c_str()) != 0) error = errno;
  if (error == 0) return {};
  if (renamed) unlink(temporary_.c_str());
  return failed("write", path_, error);
}

Status write_file(const std::string& path, std::string_view text) {
  ONEPASS_ASSIGN(AtomicFile file, AtomicFile::create(path));
  ONEPASS_TRY(file.write(text));
  return file.commit();
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : path_(std::move(other.path_)), temporary_(std::exchange(other.temporary_, {})) {}

AtomicFolder& AtomicFolder::operator=(AtomicFolder&& other) noexcept {
  if (this == &other) return *this;
  drop();
  path_ = std::move(other.path_);
  temporary_ = std::exchange(other.temporary_, {});
  return *this;
}

AtomicFolder::~AtomicFolder() { drop(); }

void AtomicFolder::drop() noexcept {
  if (temporary_.empty()) return;
  std::error_code ignored;
  try {
    std::filesystem::remove_all(temporary_, ignored);
  } catch (const std::bad_alloc&) {  // then it stays
  }
  temporary_.clear();
}

Result<AtomicFolder> AtomicFolder::create(const std::string& path) {
  return guarded([&]() -> Result<AtomicFolder> {
    AtomicFolder folder;
    folder.path_ = path;
    while (folder.path_.size() > 1 && folder.path_.ends_with('/')) folder.path_.pop_back();
    struct stat info;
    if (lstat(folder.path_.c_str(), &info) == 0) return failed("create", path, EEXIST);
    static std::atomic<unsigned> count{0};
    for (int i = 0; i < max_tries; ++i) {
      std::string temporary = folder.path_ + ".tmp" + std::to_string(getpid()) + "_" +
                              std::to_string(count.fetch_add(1, std::memory_order_relaxed));
      if (mkdir(temporary.c_str(), 0777) == 0) {
        folder.temporary_ = std::move(temporary);
        return folder;
      }
      if (errno != EEXIST) break;
    }
    return failed("create", path, errno);
  });
}

Status AtomicFolder::commit() {
  return guarded([&]() -> Status {
    if (temporary_.empty()) {
      return fail(ErrorCode::invalid_state, "commit " + path_ + ": it is not open");
    }
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      drop();
      return failed("create", path_, error);
    }
    temporary_.clear();
    return {};
  });
}

}  // namespace onepass::os
