#include "backends/cuda/driver.h"

#include <dlfcn.h>

#include <string>

namespace onepass::cuda {
namespace {

struct Loaded {
  Driver driver;
  std::string reason;  // empty: usable
};

Loaded load() {
  Loaded loaded;
  Driver& d = loaded.driver;
  void* library = nullptr;
  for (const char* name : {"libcuda.so.1", "libcuda.so"}) {
    if (!library) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) {
    loaded.reason = "cuda: no driver";
    return loaded;
  }
#define ONEPASS_CUDA_SYMBOL_(name) #name
#define ONEPASS_CUDA_SYMBOL(name) ONEPASS_CUDA_SYMBOL_(name)
#define ONEPASS_CUDA_FIND(name) \
  d.name = reinterpret_cast<decltype(d.name)>(::dlsym(library, ONEPASS_CUDA_SYMBOL(name)));
#define ONEPASS_CUDA_LOAD(name)         \
  ONEPASS_CUDA_FIND(name)               \
  if (!d.name && loaded.reason.empty()) \
    loaded.reason = "cuda: the driver is too old, it has no " ONEPASS_CUDA_SYMBOL(name);
  ONEPASS_CUDA_FUNCTIONS(ONEPASS_CUDA_LOAD)
  ONEPASS_CUDA_OPTIONAL_FUNCTIONS(ONEPASS_CUDA_FIND)
#undef ONEPASS_CUDA_LOAD
#undef ONEPASS_CUDA_FIND
#undef ONEPASS_CUDA_SYMBOL
#undef ONEPASS_CUDA_SYMBOL_
  if (!loaded.reason.empty()) return loaded;
  const CUresult result = d.cuInit(0);
  if (result == CUDA_ERROR_NO_DEVICE) {
    loaded.reason = "cuda: no device";
  } else if (result != CUDA_SUCCESS) {
    loaded.reason = "cuda: " + describe(d, result, "cuInit");
  }
  return loaded;
}

}  // namespace

Result<const Driver*> load_driver() {
  static const Loaded loaded = load();
  if (!loaded.reason.empty()) return fail(ErrorCode::not_found, loaded.reason);
  return &loaded.driver;
}

std::string describe(const Driver& driver, CUresult result, const char* call) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.cuGetErrorName(result, &name);
  driver.cuGetErrorString(result, &text);
  std::string out = std::string(call) + ": ";
  out += name ? std::string(name) : "error " + std::to_string(static_cast<int>(result));
  if (text) out += std::string(" (") + text + ")";
  return out;
}

ErrorCode error_code(CUresult result, ErrorCode otherwise) noexcept {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return ErrorCode::out_of_memory;
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_UNKNOWN:
      return ErrorCode::device_lost;
    default:
      return otherwise;
  }
}

Status check(const Driver& driver, CUresult result, const char* call, ErrorCode otherwise,
             const char* file, int line) {
  if (result == CUDA_SUCCESS) return {};
  return fail(error_code(result, otherwise), "cuda: " + describe(driver, result, call), file, line);
}

}  // namespace onepass::cuda
