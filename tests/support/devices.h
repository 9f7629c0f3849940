// Devices and small kernels for the tests of the ancestor's names.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/null/null.h"
#include "core/device_state.h"
#include "onepass/backends/cpu.h"
#include "onepass/compat.h"
#include "support/backends/fault.h"
#include "support/backends/shuffle.h"

namespace onepass::test {

inline Device open_with(std::unique_ptr<Backend> backend, const DeviceOptions& options = {}) {
  return Device(*DeviceState::create(std::move(backend), options));
}

inline Device open_cpu(DeviceOptions options = {}) {
  if (options.backend.empty()) options.backend = {CpuOptions{.threads = 2}};
  return *Device::open("cpu", options);
}

// A CPU device whose backend calls can be made to fail or to wait.
struct FaultDevice {
  FaultBackend* fault;
  Device device;

  explicit FaultDevice(const FaultOptions& faults = {}, const DeviceOptions& options = {})
      : FaultDevice(options,
                    std::make_unique<FaultBackend>(
                        make_cpu_backend({.backend = {CpuOptions{.threads = 1}}}), faults)) {}

 private:
  FaultDevice(const DeviceOptions& options, std::unique_ptr<FaultBackend> backend)
      : fault(backend.get()), device(open_with(std::move(backend), options)) {}
};

// out[i] = in[i] + 1 over the floats of view 1; view 0 is read.
inline void add_one(const KernelArgs& a) noexcept {
  const KernelArgs::Part part = a.part(a.bytes[1] / sizeof(float));
  for (std::uint64_t i = part.begin; i < part.end; ++i) {
    a.ptr<float>(1)[i] = a.ptr<const float>(0)[i] + 1.0f;
  }
}
inline void nothing(const KernelArgs&) noexcept {}

// Slots empty: accesses come from the encode call.
inline KernelId add_kernel(const Device& device, const std::string& name, CpuKernelFn code,
                           const std::string& slots = "") {
  return *device.kernels().add({.name = name, .slots = slots, .cpu = code});
}

inline Buffer floats(const Device& device, const std::vector<float>& values) {
  Buffer b = *device.allocate(values.size() * sizeof(float));
  EXPECT_TRUE(device.write_as<float>(b.view(), values));
  return b;
}

inline std::vector<float> read_floats(const Device& device, const View& view) {
  std::vector<float> out(view.bytes / sizeof(float));
  EXPECT_TRUE(device.read_as<float>(view, out));
  return out;
}

// b0, b1, ...: disjoint buffers, made on demand.
class Buffers {
 public:
  explicit Buffers(Device device, std::uint64_t bytes = 64) : device_(device), bytes_(bytes) {}
  View operator[](std::size_t i) {
    while (buffers_.size() <= i) buffers_.push_back(*device_.allocate(bytes_));
    return buffers_[i].view();
  }

 private:
  Device device_;
  std::uint64_t bytes_;
  std::vector<Buffer> buffers_;
};

inline Dispatch custom(KernelId kernel, std::initializer_list<View> views) {
  Dispatch d = make_dispatch(Op::custom);
  d.kernel = kernel;
  for (const View& v : views) d.bind(v, Access::read_write);
  return d;
}

template <class T>
::testing::AssertionResult is_ok(const Result<T>& r) {
  if (r) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << r.error().to_string();
}

}  // namespace onepass::test
