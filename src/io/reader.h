// Reads numbers and strings from untrusted bytes: nothing outside them is touched, and every error
// carries the byte offset and the field.
//
//   Reader r(bytes);
//   ONEPASS_ASSIGN(std::uint32_t version, r.number<std::uint32_t>("header.version"));
//   ONEPASS_ASSIGN(std::uint64_t n, r.count("header.tensor_count", max_tensors, 24));
//   ONEPASS_ASSIGN(std::string_view key, r.string("key", max_key_bytes));
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "onepass/result.h"

namespace onepass::io {

static_assert(std::endian::native == std::endian::little, "files are read as they are stored");

// An error of a file: offset in bytes from its start, field as a path ("tensor[3].dims[1]").
tl::unexpected<Error> fail_at(ErrorCode code, std::string message, std::uint64_t offset,
                              std::string field, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE());

// For field names: long ones are cut.
std::string clipped(std::string_view text);

bool is_utf8(std::string_view text) noexcept;

// Unsigned, checked: false where the result does not fit.
inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& out) noexcept {
  return !__builtin_mul_overflow(a, b, &out);
}
inline bool add(std::uint64_t a, std::uint64_t b, std::uint64_t& out) noexcept {
  return !__builtin_add_overflow(a, b, &out);
}
// step: a power of two.
inline bool align_up(std::uint64_t n, std::uint64_t step, std::uint64_t& out) noexcept {
  if (!add(n, step - 1, out)) return false;
  out &= ~(step - 1);
  return true;
}

class Reader {
 public:
  // bytes is the start of a file of file_bytes; what is missing may be asked for (needs_more).
  Reader(std::span<const std::byte> bytes, std::uint64_t file_bytes) noexcept
      : bytes_(bytes), file_bytes_(file_bytes) {}
  explicit Reader(std::span<const std::byte> bytes) noexcept : Reader(bytes, bytes.size()) {}

  std::uint64_t offset() const noexcept { return offset_; }
  std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  std::span<const std::byte> all() const noexcept { return bytes_; }
  std::uint64_t remaining() const noexcept { return file_bytes_ - offset_; }
  // True after an error that is not the file's: it goes on where the bytes end.
  bool needs_more() const noexcept { return needs_more_; }

  Result<std::span<const std::byte>> bytes(std::uint64_t n, const char* field);

  template <class T>
  requires(std::integral<T> || std::floating_point<T>) Result<T> number(const char* field) {
    ONEPASS_ASSIGN(const std::span<const std::byte> from, bytes(sizeof(T), field));
    T value;
    std::memcpy(&value, from.data(), sizeof(T));
    return value;
  }

  // A u64 number of items that take at least item_bytes each, so that the file can hold them.
  Result<std::uint64_t> count(const char* field, std::uint64_t limit, std::uint64_t item_bytes);
  // A u64 length and that many bytes.
  Result<std::string_view> string(const char* field, std::uint64_t limit);
  // As string, with 1 to limit bytes of UTF-8 without NUL.
  Result<std::string_view> name(const char* field, std::uint64_t limit);

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t file_bytes_;
  std::uint64_t offset_ = 0;
  bool needs_more_ = false;
};

}  // namespace onepass::io
