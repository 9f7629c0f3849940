// How much of a device's memory is free, where its driver can tell.
#pragma once

#include <cstdint>

#include "onepass/device.h"

namespace onepass {

// What a backend may implement beside Backend.
class FreeMemory {
 public:
  virtual std::uint64_t free_bytes() noexcept = 0;  // 0: unknown

 protected:
  ~FreeMemory() = default;
};

// 0: unknown.
std::uint64_t free_device_bytes(const Device& device) noexcept;

}  // namespace onepass
