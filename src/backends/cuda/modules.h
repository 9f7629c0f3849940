// Kernel functions, loaded from the fatbins inside the library when a recording first needs them,
// and those of callers' images.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/cuda.h"
#include "backends/cuda/driver.h"

namespace onepass::cuda {

// Thread-safe. The context must be current in every call and in the destructor.
class Modules {
 public:
  Modules(const Driver& driver, std::span<const KernelImage> images)
      : driver_(&driver), images_(images.begin(), images.end()), loaded_(images.size()) {}
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // Loads a caller's image. The handle is that of a BuiltKernel and lives as long as this.
  Result<std::uint64_t> build(const KernelDesc& desc);

  // The entry point for a launch of the row, allowed to use the launch's shared memory.
  Result<CUfunction> function(const KernelRow& row, const Launch& launch);

 private:
  struct Function {
    CUfunction handle = nullptr;
    // What a launch may have without asking: 48 KiB, less what kernels declare themselves.
    std::uint32_t shared_bytes = 24u << 10;
  };

  Result<CUfunction> find(const char* symbol);
  Result<Function*> find_locked(const KernelRow& row, const Launch& launch);
  Status check_parameters(CUfunction function, const std::string& call) const;

  const Driver* driver_;
  std::vector<KernelImage> images_;
  std::mutex mutex_;              // guards the rest
  std::vector<CUmodule> loaded_;  // per image; null: not yet
  std::map<std::string, Function, std::less<>> functions_;
  std::vector<CUmodule> callers_modules_;
  std::deque<Function> callers_functions_;
};

}  // namespace onepass::cuda
