#include <cstdio>
#include <string_view>

#include "capi/handles.h"

namespace onepass::capi {
namespace {

constexpr std::size_t max_message_bytes = 2048;
thread_local char message[max_message_bytes] = "";

onepass_result result_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::invalid_argument:
      return ONEPASS_INVALID_ARGUMENT;
    case ErrorCode::invalid_state:
      return ONEPASS_INVALID_STATE;
    case ErrorCode::unsupported:
      return ONEPASS_UNSUPPORTED;
    case ErrorCode::not_found:
      return ONEPASS_NOT_FOUND;
    case ErrorCode::parse:
      return ONEPASS_PARSE;
    case ErrorCode::limit:
      return ONEPASS_LIMIT;
    case ErrorCode::io:
      return ONEPASS_IO;
    case ErrorCode::out_of_memory:
      return ONEPASS_OUT_OF_MEMORY;
    case ErrorCode::device_lost:
      return ONEPASS_DEVICE_LOST;
    case ErrorCode::kernel_build:
      return ONEPASS_KERNEL_BUILD;
    case ErrorCode::submission_failed:
      return ONEPASS_SUBMISSION_FAILED;
    case ErrorCode::stale:
      return ONEPASS_STALE;
    case ErrorCode::cancelled:
      return ONEPASS_CANCELLED;
    case ErrorCode::internal:
      return ONEPASS_INTERNAL;
  }
  return ONEPASS_INTERNAL;
}

// Cut between code points where it is too long.
void keep(std::string_view text) noexcept {
  std::size_t n = text.size();
  if (n >= max_message_bytes) {
    n = max_message_bytes - 1;
    while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0u) == 0x80u) --n;
  }
  std::memcpy(message, text.data(), n);
  message[n] = '\0';
}

}  // namespace

onepass_result report(const Error& error) noexcept {
  keep(error.message);
  // Of errors in files also where.
  const std::size_t used = std::strlen(message);
  if (!error.field.empty()) {
    std::snprintf(message + used, max_message_bytes - used, " (field %s)", error.field.c_str());
  }
  if (error.byte_offset != Error::no_offset) {
    const std::size_t n = std::strlen(message);
    std::snprintf(message + n, max_message_bytes - n, " (at byte %llu)",
                  static_cast<unsigned long long>(error.byte_offset));
  }
  return result_of(error.code);
}

onepass_result report(ErrorCode code, const char* text) noexcept {
  keep(text);
  return result_of(code);
}

}  // namespace onepass::capi

using onepass::ErrorCode;

extern "C" {

const char* onepass_result_name(onepass_result result) {
  if (result == ONEPASS_OK) return "ok";
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    if (onepass::capi::result_of(code) == result) return onepass::name(code);
  }
  return "unknown";
}

const char* onepass_error_message(void) { return onepass::capi::message; }

const char* onepass_version(void) { return onepass::version(); }

uint32_t onepass_api_version(void) { return ONEPASS_API_VERSION; }

}  // extern "C"
