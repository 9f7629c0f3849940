// Options that only the CPU backend understands.
//
//   const onepass::DeviceOptions options{.backend = {onepass::CpuOptions{.threads = 2}}};
//   ONEPASS_ASSIGN(const onepass::Device device, onepass::Device::open("cpu", options));
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace onepass {

struct CpuOptions {
  std::uint32_t threads = 0;     // 0: all cores
  bool pin_threads = false;      // worker i on core i
  std::uint32_t spin_us = 200;   // how long an idle worker spins before it sleeps
  std::uint32_t features = ~0u;  // what kernels may use, as in DeviceInfo::features
};

// The features that kernels of one instruction set use: "base" (plain C++, none), or a set of this
// kind of processor like "avx2"; "best" is everything. Nothing for another name.
std::optional<std::uint32_t> cpu_path_features(std::string_view path) noexcept;

}  // namespace onepass
