// The same pass on every device there is, and why others are not available.
#include <cstdio>
#include <vector>

#include "onepass/onepass.hpp"
#include "onepass/ops.h"

using namespace onepass;

namespace {

Result<std::vector<float>> add_on(const Device& device) {
  constexpr std::uint32_t n = 16;
  ONEPASS_ASSIGN(const Buffer memory, device.allocate(2 * n * sizeof(float)));
  const Tensor x = memory.tensor(DType::f32, {n});
  const Tensor y = memory.tensor(DType::f32, {n}, n * sizeof(float));
  ONEPASS_TRY(device.write_as<float>(x.view, std::vector<float>(n, 20.5f)));
  const GraphExecutor executor(device);
  GraphSession s = executor.begin_recorded();
  ops::add(s, {.a = x, .b = x, .out = y});
  ONEPASS_TRY(s.finish());
  std::vector<float> out(n);
  ONEPASS_TRY(device.read_as<float>(y.view, out));
  return out;
}

Status run() {
  for (const DeviceListing& listed : Device::list()) {
    if (!listed.available) {
      std::printf("%-8s not available: %s\n", listed.name.c_str(), listed.reason.c_str());
      continue;
    }
    ONEPASS_ASSIGN(const Device device, Device::open(listed.name));
    const DeviceInfo& info = device.info();
    std::printf("%-8s %s, %u compute units, %.1f GB\n", info.name.c_str(), info.description.c_str(),
                info.compute_units, static_cast<double>(info.memory_bytes) / 1e9);
    if (info.name == "null") continue;  // records, and computes nothing
    ONEPASS_ASSIGN(const std::vector<float> out, add_on(device));
    for (const float value : out) {
      if (value != 41.0f) return fail(ErrorCode::internal, info.name + ": wrong result");
    }
  }
  return {};
}

}  // namespace

int main() {
  const Status status = run();
  if (!status) std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  return status ? 0 : 1;
}
