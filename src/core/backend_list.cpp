// Every backend compiled into the library, in order of preference.
#include <array>

#include "backends/cpu/cpu.h"
#include "backends/null/null.h"
#include "core/device_state.h"

namespace onepass {
namespace {

Result<std::unique_ptr<Backend>> only_index_zero(
    std::uint32_t index, const char* name, std::unique_ptr<Backend> (*make)(const DeviceOptions&),
    const DeviceOptions& options) {
  if (index != 0) {
    return fail(ErrorCode::not_found, std::string("there is one device '") + name + "'");
  }
  return make(options);
}

std::vector<DeviceListing> list_cpu() {
  return {{"cpu", make_cpu_backend({.threads = 1})->info().description, true, ""}};
}
Result<std::unique_ptr<Backend>> open_cpu(std::uint32_t index, const DeviceOptions& options) {
  return only_index_zero(index, "cpu", make_cpu_backend, options);
}

std::vector<DeviceListing> list_null() {
  return {{"null", "records and counts, runs nothing", true, ""}};
}
Result<std::unique_ptr<Backend>> open_null(std::uint32_t index, const DeviceOptions& options) {
  return only_index_zero(index, "null", make_null_backend, options);
}

}  // namespace

std::span<const BackendEntry> backend_list() noexcept {
  static const std::array<BackendEntry, 2> entries{{
      {"cpu", list_cpu, open_cpu},
      {"null", list_null, open_null},
  }};
  return entries;
}

}  // namespace onepass
