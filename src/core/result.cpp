#include "onepass/result.h"

#include <cstring>
#include <new>

#include "onepass/version.h"

namespace onepass {

const char* name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::invalid_state:
      return "invalid_state";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::parse:
      return "parse";
    case ErrorCode::limit:
      return "limit";
    case ErrorCode::io:
      return "io";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::device_lost:
      return "device_lost";
    case ErrorCode::kernel_build:
      return "kernel_build";
    case ErrorCode::submission_failed:
      return "submission_failed";
    case ErrorCode::stale:
      return "stale";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

Error make_error(ErrorCode code, std::string message, const char* file, int line) {
  Error e;
  e.code = code;
  e.message = std::move(message);
  e.file = file;
  e.line = line;
  return e;
}

std::string Error::to_string() const try {
  std::string text = std::string(name(code)) + ": " + message;
  if (!field.empty()) text += " (field " + field + ")";
  if (byte_offset != no_offset) text += " (at byte " + std::to_string(byte_offset) + ")";
  if (line > 0) {
    const char* base = std::strrchr(file, '/');
    text += " [" + std::string(base ? base + 1 : file) + ":" + std::to_string(line) + "]";
  }
  return text;
} catch (const std::bad_alloc&) {
  return {};
}

#define ONEPASS_STRING_(x) #x
#define ONEPASS_STRING(x) ONEPASS_STRING_(x)
const char* version() noexcept {
  return ONEPASS_STRING(ONEPASS_VERSION_MAJOR) "." ONEPASS_STRING(
      ONEPASS_VERSION_MINOR) "." ONEPASS_STRING(ONEPASS_VERSION_PATCH);
}

}  // namespace onepass
