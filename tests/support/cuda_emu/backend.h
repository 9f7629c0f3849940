// A device "cuda-emu" for tests: the CUDA kernel rows and kernels, run on the host (machine.h).
// Memory is not unified, as on a card. Launches run in an order that their edges allow, another
// one in every submission. No GPU, no driver and no CUDA compiler are needed.
//
// Callers' CUDA kernels are looked up by their entry point among the program's own symbols, where
// the same .cu file was compiled as C++; of the image, only whether there is one is looked at.
#pragma once

#include <cstdint>
#include <memory>

#include "core/backend.h"
#include "onepass/device.h"

namespace onepass::emu {

struct EmulatorOptions {
  std::uint64_t seed = 1;
  std::uint32_t compute_units = 132;
};

std::unique_ptr<Backend> make_cuda_emulator(const EmulatorOptions& options = {});

// The same as a device, for GraphExecutor and ops.
Result<Device> open_cuda_emulator(const EmulatorOptions& options = {},
                                  const DeviceOptions& device_options = {});

}  // namespace onepass::emu
