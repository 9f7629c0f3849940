// Device memory in large pieces from the driver, cut up and kept for reuse: cuMemFree waits for the
// device, so nothing is given back while there is enough.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "backends/cuda/driver.h"

namespace onepass::cuda {

struct MemoryStatistics {
  std::uint64_t used_bytes = 0;      // in blocks that were handed out, rounding included
  std::uint64_t reserved_bytes = 0;  // taken from the driver
  std::uint64_t peak_bytes = 0;      // largest reserved_bytes
  std::uint64_t driver_calls = 0;    // cuMemAlloc and cuMemFree
};

// A block may be freed when the work that uses it is complete, or when all later users of the
// memory come behind that work on the same stream. Thread-safe. The context must be current in
// every call and in the destructor.
class DeviceMemory {
 public:
  // exact: every block is an allocation of the driver's, for tools that check accesses.
  DeviceMemory(const Driver& driver, std::string device_name, bool exact)
      : driver_(&driver), name_(std::move(device_name)), exact_(exact) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // 256-byte aligned. Where the driver has no more, what is kept but unused is given back first.
  // The error names the bytes asked for, free and there.
  Result<CUdeviceptr> allocate(std::uint64_t bytes);
  void release(CUdeviceptr address) noexcept;
  // Gives unused pieces back to the driver; waits for the device.
  void trim() noexcept;

  MemoryStatistics statistics() const;

 private:
  struct Block {
    std::uint64_t bytes = 0;
    CUdeviceptr piece = 0;   // what the driver gave
    bool is_shared = false;  // the piece is one for small blocks
    bool is_free = false;
  };
  using Blocks = std::map<CUdeviceptr, Block>;

  Result<CUdeviceptr> take_from_driver(std::uint64_t bytes, std::uint64_t asked);
  void split(Blocks::iterator block, std::uint64_t bytes);
  bool trim_locked() noexcept;  // whether there was anything to give back

  const Driver* driver_;
  std::string name_;
  bool exact_;
  mutable std::mutex mutex_;  // guards the rest
  Blocks blocks_;             // neighbours of one piece are neighbours here
  // Free blocks by size: of pieces of their own, of shared pieces.
  std::array<std::set<std::pair<std::uint64_t, CUdeviceptr>>, 2> free_;
  MemoryStatistics statistics_;
};

// A block that is released with its owner; under DeviceMemory's conditions.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  DeviceBytes(DeviceMemory& memory, CUdeviceptr address) noexcept
      : memory_(&memory), address_(address) {}
  DeviceBytes(DeviceBytes&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        address_(std::exchange(other.address_, 0)) {}
  DeviceBytes& operator=(DeviceBytes&&) = delete;
  ~DeviceBytes() { reset(); }

  CUdeviceptr address() const noexcept { return address_; }  // 0: none
  void reset() noexcept {
    if (memory_) memory_->release(address_);
    memory_ = nullptr;
    address_ = 0;
  }

 private:
  DeviceMemory* memory_ = nullptr;
  CUdeviceptr address_ = 0;
};

}  // namespace onepass::cuda
