#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/os.h"

namespace onepass::os {
namespace {

// One call reads at most this much on some systems.
constexpr std::size_t max_read_bytes = std::size_t{1} << 30;

tl::unexpected<Error> failed(const char* what, const std::string& path, int error,
                             std::uint64_t offset = Error::no_offset) {
  const ErrorCode code = error == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  Error e = make_error(code, std::string(what) + " " + path + ": " + std::strerror(error));
  e.byte_offset = offset;
  return tl::unexpected<Error>(std::move(e));
}

}  // namespace

File::File(File&& other) noexcept
    : handle_(std::exchange(other.handle_, -1)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, nullptr)),
      path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  if (this == &other) return *this;
  close();
  handle_ = std::exchange(other.handle_, -1);
  bytes_ = std::exchange(other.bytes_, 0);
  mapped_ = std::exchange(other.mapped_, nullptr);
  path_ = std::move(other.path_);
  return *this;
}

File::~File() { close(); }

void File::close() noexcept {
  if (mapped_ != nullptr) munmap(mapped_, static_cast<std::size_t>(bytes_));
  if (handle_ >= 0) ::close(handle_);
  mapped_ = nullptr;
  handle_ = -1;
}

Result<File> File::open(const std::string& path) {
  File file;
  file.path_ = path;
  // Without O_NONBLOCK the open of a named pipe waits for a writer.
  do {
    file.handle_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (file.handle_ < 0 && errno == EINTR);
  if (file.handle_ < 0) return failed("open", path, errno);
  struct stat info;
  if (fstat(file.handle_, &info) != 0) return failed("stat", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorCode::io, "open " + path + ": not a regular file");
  }
  file.bytes_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

Status File::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > bytes_ || out.size() > bytes_ - offset) {
    Error e = make_error(ErrorCode::io, "read " + path_ + ": " + std::to_string(out.size()) +
                                            " bytes of a file of " + std::to_string(bytes_));
    e.byte_offset = offset;
    return e;
  }
  std::size_t done = 0;
  while (done < out.size()) {
    const std::uint64_t at = offset + done;
    const ssize_t n = pread(handle_, out.data() + done, std::min(out.size() - done, max_read_bytes),
                            static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("read", path_, errno, at);
    if (n == 0) {
      Error e = make_error(ErrorCode::io, "read " + path_ + ": the file has become shorter");
      e.byte_offset = at;
      return e;
    }
    done += static_cast<std::size_t>(n);
  }
  return {};
}

Result<std::span<const std::byte>> File::map() {
  if (mapped_ == nullptr && bytes_ > 0) {
    if (handle_ < 0) return fail(ErrorCode::invalid_state, "map: no file is open");
    void* p = mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ, MAP_PRIVATE, handle_, 0);
    if (p == MAP_FAILED) return failed("map", path_, errno);
    mapped_ = p;
  }
  return std::span(static_cast<const std::byte*>(mapped_), static_cast<std::size_t>(bytes_));
}

}  // namespace onepass::os
