#include "io/reader.h"

#include <utility>

namespace onepass::io {

tl::unexpected<Error> fail_at(ErrorCode code, std::string message, std::uint64_t offset,
                              std::string field, const char* file, int line) {
  Error e = make_error(code, std::move(message), file, line);
  e.byte_offset = offset;
  e.field = std::move(field);
  return tl::unexpected<Error>(std::move(e));
}

std::string clipped(std::string_view text) {
  constexpr std::size_t most = 80;
  if (text.size() <= most) return std::string(text);
  std::size_t n = most;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  return std::string(text.substr(0, n)) + "...";
}

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned first = byte(i);
    std::size_t n = 0;
    unsigned code = 0;
    if (first < 0x80) {
      ++i;
      continue;
    }
    if (first >= 0xc2 && first <= 0xdf) {
      n = 1, code = first & 0x1f;
    } else if (first >= 0xe0 && first <= 0xef) {
      n = 2, code = first & 0x0f;
    } else if (first >= 0xf0 && first <= 0xf4) {
      n = 3, code = first & 0x07;
    } else {
      return false;
    }
    if (n >= text.size() - i) return false;
    for (std::size_t k = 1; k <= n; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    // Longer than needed, a surrogate, or beyond the last code point.
    if ((n == 2 && code < 0x800) || (n == 3 && code < 0x10000) || code > 0x10ffff ||
        (code >= 0xd800 && code <= 0xdfff)) {
      return false;
    }
    i += n + 1;
  }
  return true;
}

Result<std::span<const std::byte>> Reader::bytes(std::uint64_t n, const char* field) {
  if (n > remaining()) {
    return fail_at(ErrorCode::parse,
                   "the file is truncated: " + std::to_string(n) + " bytes expected, " +
                       std::to_string(remaining()) + " left",
                   offset_, field);
  }
  if (n > bytes_.size() - offset_) {
    needs_more_ = true;
    return fail_at(ErrorCode::parse, "the bytes given end before the file", offset_, field);
  }
  const auto part = bytes_.subspan(static_cast<std::size_t>(offset_), static_cast<std::size_t>(n));
  offset_ += n;
  return part;
}

Result<std::uint64_t> Reader::count(const char* field, std::uint64_t limit,
                                    std::uint64_t item_bytes) {
  const std::uint64_t at = offset_;
  ONEPASS_ASSIGN(const std::uint64_t n, number<std::uint64_t>(field));
  if (n > limit) {
    return fail_at(ErrorCode::limit,
                   std::to_string(n) + " items, at most " + std::to_string(limit) + " are allowed",
                   at, field);
  }
  if (n > remaining() / item_bytes) {
    return fail_at(ErrorCode::parse,
                   "the file is truncated: " + std::to_string(n) + " items of at least " +
                       std::to_string(item_bytes) + " bytes, it has " +
                       std::to_string(remaining()) + " bytes left",
                   at, field);
  }
  return n;
}

Result<std::string_view> Reader::string(const char* field, std::uint64_t limit) {
  ONEPASS_ASSIGN(const std::uint64_t n, count(field, limit, 1));
  ONEPASS_ASSIGN(const std::span<const std::byte> text, bytes(n, field));
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

Result<std::string_view> Reader::name(const char* field, std::uint64_t limit) {
  const std::uint64_t at = offset_;
  ONEPASS_ASSIGN(const std::string_view text, string(field, limit));
  if (text.empty()) return fail_at(ErrorCode::parse, "is empty", at, field);
  if (text.find('\0') != text.npos) return fail_at(ErrorCode::parse, "contains NUL", at, field);
  if (!is_utf8(text)) return fail_at(ErrorCode::parse, "is not UTF-8", at, field);
  return text;
}

}  // namespace onepass::io
