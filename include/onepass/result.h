// Results instead of exceptions.
//
//   const onepass::Result<onepass::Device> device = onepass::Device::open("abacus");
//   if (!device) std::puts(device.error().to_string().c_str());
//   ONEPASS_TRY(opened.write(view, bytes));  // returns the error to the caller
//   ONEPASS_ASSIGN(const onepass::Buffer b, opened.allocate(4096));
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace onepass {

enum class ErrorCode : std::uint8_t {
  invalid_argument,
  invalid_state,
  unsupported,
  not_found,
  parse,
  limit,
  io,
  out_of_memory,
  device_lost,
  kernel_build,
  submission_failed,
  stale,
  cancelled,
  internal,
};

// Stable lower-case name, e.g. "invalid_argument".
const char* name(ErrorCode code) noexcept;

struct Error {
  static constexpr std::uint64_t no_offset = ~std::uint64_t{0};

  ErrorCode code = ErrorCode::internal;
  std::string message;    // what, expected, got
  const char* file = "";  // where the error was made, or the op call that caused it
  int line = 0;
  std::uint64_t byte_offset = no_offset;  // files only
  std::string field;                      // files only

  // True where the same call may succeed when repeated.
  bool is_transient() const noexcept { return code == ErrorCode::submission_failed; }
  std::string to_string() const;
};

Error make_error(ErrorCode code, std::string message, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE());

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
  using Base = tl::expected<T, Error>;

 public:
  using Base::Base;
  // Written out, so that `return {}` does not write zeros where an error would be.
  Result() noexcept(std::is_nothrow_default_constructible_v<Base>) requires
      std::is_default_constructible_v<Base> {}
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}
};

using Status = Result<void>;

// Short form: return fail(ErrorCode::limit, "...");
inline tl::unexpected<Error> fail(ErrorCode code, std::string message,
                                  const char* file = __builtin_FILE(),
                                  int line = __builtin_LINE()) {
  return tl::unexpected<Error>(make_error(code, std::move(message), file, line));
}

}  // namespace onepass

#define ONEPASS_CONCAT_(a, b) a##b
#define ONEPASS_CONCAT(a, b) ONEPASS_CONCAT_(a, b)

#define ONEPASS_TRY(expr)                                                           \
  do {                                                                              \
    if (auto onepass_status = (expr); !onepass_status)                              \
      return ::tl::unexpected<::onepass::Error>(std::move(onepass_status).error()); \
  } while (false)

#define ONEPASS_ASSIGN_(tmp, decl, expr)                                       \
  auto tmp = (expr);                                                           \
  if (!tmp) return ::tl::unexpected<::onepass::Error>(std::move(tmp).error()); \
  decl = std::move(*tmp)
#define ONEPASS_ASSIGN(decl, expr) \
  ONEPASS_ASSIGN_(ONEPASS_CONCAT(onepass_result_, __COUNTER__), decl, expr)
