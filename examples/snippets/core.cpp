// Devices, memory, types and results.
#include <cstdio>
#include <cstring>

#include "snippets.h"

namespace snippets {
namespace {

using onepass::Device;
using onepass::Status;
using onepass::View;

Status umbrella(const Device&) {
  // [onepass.hpp]
  const onepass::Result<onepass::Device> device = onepass::Device::open("cpu");
  if (!device) return device.error();  // what, expected, got, where
  const onepass::GraphExecutor executor(*device);
  onepass::GraphSession s = executor.begin_recorded();
  // [onepass.hpp]
  return check(s.is_recording());
}

Status version(const Device&) {
  // [version.h]
  static_assert(ONEPASS_VERSION_MAJOR == 0);  // of the headers
  std::puts(onepass::version());              // of the library
  // [version.h]
  return check(std::strlen(onepass::version()) >= 5);
}

Status result(const Device& opened) {
  Arrays arrays(opened);
  const onepass::Tensor t = arrays.zeros({4});
  const View view = t.view;
  const std::vector<std::byte> bytes(16, std::byte{1});
  // [result.h]
  const onepass::Result<onepass::Device> device = onepass::Device::open("abacus");
  if (!device) std::puts(device.error().to_string().c_str());
  ONEPASS_TRY(opened.write(view, bytes));  // returns the error to the caller
  ONEPASS_ASSIGN(const onepass::Buffer b, opened.allocate(4096));
  // [result.h]
  return check(!device && b.bytes() == 4096);
}

Status device(const Device&) {
  const std::vector<std::byte> bytes(1 << 20, std::byte{1});
  // [device.h]
  ONEPASS_ASSIGN(const onepass::Device device, onepass::Device::open("cpu"));
  ONEPASS_ASSIGN(const onepass::Buffer b, device.allocate(1 << 20));  // zero-filled
  ONEPASS_TRY(device.write(b.view(), bytes));                         // waits for the last pass
  for (const auto& l : onepass::Device::list()) std::puts((l.name + ' ' + l.reason).c_str());
  // [device.h]
  std::vector<std::byte> back(bytes.size());
  ONEPASS_TRY(device.read(b.view(), back));
  return check(back == bytes);
}

Status cpu_options(const Device&) {
  // [backends/cpu.h]
  const onepass::DeviceOptions options{.backend = {onepass::CpuOptions{.threads = 2}}};
  ONEPASS_ASSIGN(const onepass::Device device, onepass::Device::open("cpu", options));
  // [backends/cpu.h]
  return check(device.info().compute_units == 2);
}

Status cuda_options(const Device&) {
  // [backends/cuda.h]
  const onepass::DeviceOptions options{.backend = {onepass::CudaOptions{.plain_edges = true}}};
  ONEPASS_ASSIGN(const onepass::Device device, onepass::Device::open("auto", options));
  // [backends/cuda.h]
  return check(onepass::backend_options<onepass::CudaOptions>(device.options()).plain_edges);
}

Status vulkan_options(const Device&) {
  // [backends/vulkan.h]
  const onepass::DeviceOptions options{.backend = {onepass::VulkanOptions{.validate = true}}};
  const onepass::Result<onepass::Device> device = onepass::Device::open("vulkan:0", options);
  // [backends/vulkan.h]
  return check(device || device.error().code != onepass::ErrorCode::internal);
}

Status buffer(const Device& device) {
  // [buffer.h]
  ONEPASS_ASSIGN(const onepass::Buffer b, device.allocate(4096));
  const onepass::View half = b.view(0, 2048);
  ONEPASS_ASSIGN(const onepass::View quarter, half.sub(1024, 1024));  // offsets add up
  const onepass::Tensor t = onepass::tensor(half, onepass::DType::f32, {16, 32});
  // [buffer.h]
  return check(quarter.offset == 1024 && !half.sub(1024, 1025) && t.shape.elements() == 512);
}

Status pool(const Device& device) {
  // [pool.h]
  onepass::BufferPool pool(device);
  ONEPASS_ASSIGN(onepass::Buffer tmp, pool.take(5000));  // 5000 bytes of a 5120-byte class
  tmp.reset();                                           // or keep it over pool.reset()
  pool.reset();                                          // takes back what only the pool owns
  // [pool.h]
  return check(pool.free_count() == 1 && pool.free_bytes() == 5120 && pool.in_use_count() == 0);
}

Status dtype(const Device&) {
  // [dtype.h]
  const onepass::DType t = onepass::DType::q8_0;
  const std::uint32_t block = onepass::info(t).block_elements;               // 32
  const std::optional<std::uint64_t> row = onepass::storage_bytes(t, 4096);  // 4352
  // [dtype.h]
  return check(block == 32 && row == 4352u);
}

Status tracker(const Device& device) {
  onepass::CommandEncoder encoder(device);
  Arrays arrays(device);
  const View x = arrays.zeros({4}).view, y = arrays.zeros({4}).view;
  ONEPASS_TRY(arrays.status());
  const std::vector<View> reads{x}, writes{y};
  // [tracker.h]
  onepass::ConflictTracker tracker(device);
  ONEPASS_TRY(tracker.add(reads, writes));                                   // of a dispatch
  ONEPASS_ASSIGN(const onepass::Hazard why, tracker.conflicts(writes, {}));  // of the next
  if (why != onepass::Hazard::none) encoder.memory_barrier();                // then reset()
  // [tracker.h]
  return check(why == onepass::Hazard::read_after_write && tracker.len() == 2);
}

constexpr Snippet list[] = {
    {"backends/cpu.h", cpu_options},
    {"backends/cuda.h", cuda_options},
    {"backends/vulkan.h", vulkan_options},
    {"buffer.h", buffer},
    {"device.h", device},
    {"dtype.h", dtype},
    {"onepass.hpp", umbrella},
    {"pool.h", pool},
    {"result.h", result},
    {"tracker.h", tracker},
    {"version.h", version},
};

}  // namespace

std::span<const Snippet> core() { return list; }

}  // namespace snippets
