// Every backend compiled into the library.
#include "backends/cpu/cpu.h"
#if ONEPASS_HAS_CUDA
#include "backends/cuda/cuda.h"
#endif
#include "backends/null/null.h"
#if ONEPASS_HAS_VULKAN
#include "backends/vulkan/vulkan.h"
#endif
#include "core/device_state.h"
#include "onepass/backends/cpu.h"

namespace onepass {
namespace {

// Backends of which there is one device on every machine.
using Make = std::unique_ptr<Backend> (*)(const DeviceOptions&);

template <Make make>
std::vector<DeviceListing> list_one() {
  const std::unique_ptr<Backend> backend = make({.backend = {CpuOptions{.threads = 1}}});
  return {{backend->info().name, backend->info().description, true, ""}};
}

template <Make make>
Result<std::unique_ptr<Backend>> open_one(std::uint32_t index, const DeviceOptions& options) {
  if (index != 0) return fail(ErrorCode::not_found, "there is one such device, with index 0");
  return make(options);
}

}  // namespace

std::span<const BackendEntry> backend_list() noexcept {
  static const BackendEntry entries[] = {
    {"cpu", list_one<make_cpu_backend>, open_one<make_cpu_backend>},
#if ONEPASS_HAS_CUDA
    {"cuda", list_cuda, open_cuda, true},
#endif
    {"null", list_one<make_null_backend>, open_one<make_null_backend>},
#if ONEPASS_HAS_VULKAN
    {"vulkan", list_vulkan, open_vulkan},
#endif
  };
  return entries;
}

}  // namespace onepass
