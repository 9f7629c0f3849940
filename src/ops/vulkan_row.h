// Rows of the Vulkan kernel tables, and what their launches are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "core/kernel_row.h"
#include "onepass/device.h"

namespace onepass::ops {

constexpr KernelRow vulkan_row(Op op, Format format, const char* name, LaunchFn launch,
                               std::span<const std::uint32_t> words) noexcept {
  return {.op = op,
          .format = format,
          .name = name,
          .launch = launch,
          .code = SpirvModule{words, "main"},
          .kind = captured_kind(op)};
}

// The launch of a kernel whose values are these: constants 4, 5, ... of its module. What a launch
// function of the CPU asked for in memory is taken back.
inline void vulkan_values(Launch& launch, std::initializer_list<std::uint32_t> values) noexcept {
  launch.scratch_bytes = launch.persistent_bytes = 0;
  launch.shared_bytes = 0;
  launch.n_spec = 0;
  for (const std::uint32_t value : values) {
    launch.spec[launch.n_spec] = {launch.n_spec, static_cast<std::int32_t>(value)};
    ++launch.n_spec;
  }
}

// Groups of `threads` for n units, one per thread; kernels go on in steps of the grid.
inline void vulkan_cover(const DeviceInfo& device, Launch& launch, std::uint64_t n,
                         std::uint32_t threads) noexcept {
  const std::uint64_t groups = n / threads + (n % threads != 0 ? 1 : 0);
  const std::uint64_t most = std::min(device.max_groups[0], 65535u);
  launch.grid = {static_cast<std::uint32_t>(std::clamp<std::uint64_t>(groups, 1, most)), 1, 1};
  launch.group = {threads, 1, 1};
}

// As many groups as there are, up to the limit in x.
inline void vulkan_groups(const DeviceInfo& device, Launch& launch, std::uint64_t groups,
                          std::uint32_t threads) noexcept {
  vulkan_cover(device, launch, groups, 1);
  launch.group = {threads, 1, 1};
}

// A format as the kernels' values call it; ~0: they do not know it.
constexpr std::uint32_t type_value(Format format) noexcept {
#define VULKAN_FORMAT(name, number) \
  if (format == formats::name) return number;
#include "ops/shared/vulkan_formats.def"
  return ~0u;
}
// A DType of an op's parameters.
constexpr std::uint32_t type_value(std::uint32_t type) noexcept {
  return type_value(Format(static_cast<DType>(type)));
}

}  // namespace onepass::ops
