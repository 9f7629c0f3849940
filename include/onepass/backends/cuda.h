// Options that only the CUDA backend understands.
//
//   const onepass::DeviceOptions options{.backend = {onepass::CudaOptions{.plain_edges = true}}};
//   ONEPASS_ASSIGN(const onepass::Device device, onepass::Device::open("auto", options));
#pragma once

namespace onepass {

struct CudaOptions {
  bool plain_edges = false;   // no kernel starts before those it depends on have ended
  bool exact_memory = false;  // each buffer an allocation of the driver's, for memory checkers
};

}  // namespace onepass
