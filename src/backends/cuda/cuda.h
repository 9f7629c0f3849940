// The CUDA backend: a recording becomes an explicit CUDA graph, replayed on one stream, or, where
// it runs only once, launches on that stream and on those beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/backend.h"

namespace onepass {
namespace cuda {

struct Driver;

// Kernels of one family and the fatbin that holds their entry points.
struct KernelImage {
  KernelList rows;
  const void* fatbin = nullptr;
};

// Kernels compiled into the library. Valid as long as the process.
std::span<const KernelImage> kernel_images() noexcept;

// The devices of a driver; never empty. A reason takes the place of a device that is not there.
std::vector<DeviceListing> list_devices(const Driver& driver);

// The driver and the images must outlive the backend. At most options.command_buffers submissions
// are in flight: submit() blocks while there are more.
Result<std::unique_ptr<Backend>> open_device(const Driver& driver,
                                             std::span<const KernelImage> images,
                                             std::uint32_t index, const DeviceOptions& options);

}  // namespace cuda

std::vector<DeviceListing> list_cuda();
Result<std::unique_ptr<Backend>> open_cuda(std::uint32_t index, const DeviceOptions& options);

}  // namespace onepass
