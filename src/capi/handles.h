// What the opaque handles of the C API hold, and how its functions report errors.
//
//   onepass_result onepass_plan_run(const onepass_plan* plan) {
//     return call([&]() -> Status {
//       ONEPASS_TRY(require(plan, "plan"));
//       return plan->plan.run();
//     });
//   }
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/guarded.h"
#include "model/text_model.h"
#include "onepass/device.h"
#include "onepass/onepass.h"
#include "onepass/plan.h"
#include "onepass/session.h"
#include "run/generate.h"
#include "text/template/chat_template.h"

struct onepass_device {
  onepass::Device device;
  onepass::GraphExecutor executor;
};

struct onepass_buffer {
  onepass::Device device;
  onepass::Buffer buffer;
};

struct onepass_recorder {
  onepass::Device device;
  onepass::GraphExecutor executor;
  std::optional<onepass::GraphSession> session;  // none: compiled
  std::vector<onepass::Tensor> scratch;
};

struct onepass_plan {
  onepass::GraphExecutor executor;
  onepass::Plan plan;
};

struct onepass_submission {
  onepass::Submission submission;
};

struct onepass_model {
  // Read from the model's files when it is first asked for.
  struct Chat {
    std::once_flag once;
    std::optional<onepass::Result<onepass::llm::ChatTemplate>> value;
  };
  onepass::llm::TextModel text;
  std::string path;
  std::string architecture;
  std::string tokenizer_error;
  mutable Chat chat{};
};

struct onepass_sequence {
  onepass::llm::Generator generator;
  mutable std::atomic<bool> busy{false};
  mutable std::atomic<bool> cancel{false};  // the call that it is in, see onepass_sequence_cancel

  explicit onepass_sequence(onepass::llm::Generator g) : generator(std::move(g)) {}
};

namespace onepass::capi {

// Keeps the text for onepass_error_message; allocates nothing.
onepass_result report(const Error& error) noexcept;
onepass_result report(ErrorCode code, const char* text) noexcept;

// The body of every function that can fail: f returns a Status, and nothing it throws gets out.
template <class F>
onepass_result call(F&& f) noexcept {
  try {
    const Status status = std::forward<F>(f)();
    return status ? ONEPASS_OK : report(status.error());
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::out_of_memory, "out of memory");
  } catch (const std::length_error&) {
    return report(ErrorCode::out_of_memory, "out of memory");
  } catch (const std::exception& e) {
    return report(ErrorCode::internal, e.what());
  } catch (...) {
    return report(ErrorCode::internal, "unknown exception");
  }
}

inline Error bad_argument(std::string message) {
  return make_error(ErrorCode::invalid_argument, std::move(message), "", 0);
}

inline Status require(const void* pointer, const char* name) {
  if (pointer == nullptr) return bad_argument(std::string(name) + " is null");
  return {};
}

// Structs with a size are at most this long in any version: more is taken for garbage.
inline constexpr std::size_t max_struct_bytes = 4096;

// T begins with its size; `what` names it.
template <class T>
Status check_size(const T* value, const char* what) {
  if (value->size >= sizeof(std::size_t) && value->size <= max_struct_bytes) return {};
  return bad_argument(std::string(what) + ".size is " + std::to_string(value->size) +
                      ", expected sizeof(" + what + "), " + std::to_string(sizeof(T)));
}

// Options as this version knows them: what an older caller does not have is 0.
template <class T>
Result<T> take_options(const T* given, const char* what) {
  T options{};
  options.size = sizeof(T);
  if (given == nullptr) return options;
  ONEPASS_TRY(check_size(given, what));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < given->size; ++i) {
    if (bytes[i] != 0) {
      return make_error(ErrorCode::unsupported,
                        std::string(what) + " has " + std::to_string(given->size) +
                            " bytes and sets some after byte " + std::to_string(sizeof(T)) +
                            ", where this version of the library ends",
                        "", 0);
    }
  }
  std::memcpy(&options, given, std::min(given->size, sizeof(T)));
  options.size = sizeof(T);
  return options;
}

// As much of a report as the caller's struct has room for; what it has beyond is set to 0.
template <class T>
Status give(T* out, T value, const char* what) {
  ONEPASS_TRY(require(out, what));
  ONEPASS_TRY(check_size(out, what));
  const std::size_t size = out->size;
  std::memset(static_cast<void*>(out), 0, size);
  value.size = size;
  std::memcpy(static_cast<void*>(out), &value, std::min(size, sizeof(T)));
  return {};
}

// Copies to an array of the caller's; *n is how many there are. Null with capacity 0 only counts.
template <class From, class To>
Status copy_out(const From& from, To* to, std::size_t capacity, std::size_t* n) {
  *n = from.size();
  if (to == nullptr && capacity == 0) return {};
  ONEPASS_TRY(require(to, "output"));
  if (capacity < from.size()) {
    return make_error(
        ErrorCode::limit,
        "room for " + std::to_string(capacity) + ", needed " + std::to_string(from.size()), "", 0);
  }
  std::copy(from.begin(), from.end(), to);
  return {};
}

Result<DType> dtype_of(onepass_dtype type);
Result<Shape> shape_of(uint32_t rank, const uint32_t* shape);
// An error when it overflows or rows are no whole blocks.
Result<std::uint64_t> bytes_of(DType type, const Shape& shape);

// Records the op of that name; an error is also kept by the session.
Status record_op(GraphSession& session, const char* name, const std::vector<Tensor>& tensors,
                 const onepass_op_options& options);

}  // namespace onepass::capi
