// Everything the library asks of the operating system. One of os_linux.cpp and os_posix.cpp is
// compiled; both define the same functions. What both share is in os_common.cpp, os_file.cpp and
// os_atomic_file.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "onepass/result.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ONEPASS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || \
    __has_feature(memory_sanitizer)
#define ONEPASS_SANITIZED 1
#endif
#endif
#ifndef ONEPASS_SANITIZED
#define ONEPASS_SANITIZED 0
#endif

namespace onepass::os {

// True in sanitizer builds, where spinning starves the threads that are waited for.
inline constexpr bool sanitized = ONEPASS_SANITIZED != 0;

// Cores this process may use, at least 1. Linux: affinity mask and cgroup quota count.
std::uint32_t core_count() noexcept;
// Binds the calling thread to one core; false where that is not possible.
bool pin_thread(std::uint32_t core) noexcept;
// Shows up in debuggers and profilers; at most 15 characters.
void name_thread(const char* name) noexcept;
void yield() noexcept;
// Tells the core that this is a spin loop.
inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb");
#endif
}

// Monotonic clock.
std::uint64_t now_ns() noexcept;

std::size_t page_bytes() noexcept;
std::uint64_t total_memory_bytes() noexcept;     // 0: unknown
std::uint64_t resident_memory_bytes() noexcept;  // of this process; 0: unknown
std::uint64_t peak_memory_bytes() noexcept;      // most that was resident so far; 0: unknown
std::string cpu_name();
std::string executable_path();  // of this process; empty: unknown

// True where the core has the 8-bit dot product instructions of Arm v8.2.
bool has_arm_dotprod() noexcept;

// At least 256-byte aligned, page-aligned from 64 KiB on. Null when there is not enough memory.
void* allocate(std::uint64_t bytes, bool zero) noexcept;
// With the size that was allocated.
void release(void* memory, std::uint64_t bytes) noexcept;
// Whole pages of zeros, for allocate; munmap takes them back.
void* map_zeroed(std::uint64_t bytes) noexcept;

// A regular file opened for reading. Move-only; errors have code io, or not_found when there is no
// such file.
class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();
  static Result<File> open(const std::string& path);

  std::uint64_t bytes() const noexcept { return bytes_; }  // when it was opened
  // All of out, from offset; an error when the file has become shorter.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  // The whole file, read-only, until this object goes. A file that is cut short while it is mapped
  // ends the process (SIGBUS): only for files that nobody else writes.
  Result<std::span<const std::byte>> map();

 private:
  void close() noexcept;

  int handle_ = -1;
  std::uint64_t bytes_ = 0;
  void* mapped_ = nullptr;
  std::string path_;
};

// A file that is there under its name only once it is complete: written under another name in the
// same folder and renamed by commit(). Dropped before that, it leaves no trace and an older file of
// the name is kept. What is no regular file (a pipe, /dev/null) is written to directly. Move-only;
// errors have code io, or not_found when there is no such folder.
class AtomicFile {
 public:
  AtomicFile() = default;
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();
  static Result<AtomicFile> create(const std::string& path);

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) { return write(std::as_bytes(std::span<const char>(text))); }
  // After it, or after any error, nothing more can be written.
  Status commit();

 private:
  void drop() noexcept;

  int handle_ = -1;
  std::uint64_t bytes_ = 0;  // written
  std::string path_;         // links followed
  std::string temporary_;    // empty: written to directly
};

// All of an AtomicFile.
Status write_file(const std::string& path, std::string_view text);

// The same for a folder, which must not be there yet: files go to path() until commit() gives it
// its name. Dropped before that, it goes with what is in it.
class AtomicFolder {
 public:
  AtomicFolder() = default;
  AtomicFolder(AtomicFolder&& other) noexcept;
  AtomicFolder& operator=(AtomicFolder&& other) noexcept;
  ~AtomicFolder();
  static Result<AtomicFolder> create(const std::string& path);

  const std::string& path() const noexcept { return temporary_; }
  Status commit();

 private:
  void drop() noexcept;

  std::string path_;
  std::string temporary_;  // empty: nothing to drop
};

}  // namespace onepass::os
