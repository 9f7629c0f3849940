// Rows of the Vulkan kernel tables, and what their launches are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "core/kernel_row.h"
#include "onepass/device.h"

// Formats of weights that src/quant/blocks.glsl reads.
// clang-format off
#define VULKAN_BLOCK_FORMATS(X) \
  X(q4_0) X(q8_0) X(q4_1) X(q5_0) X(q5_1) X(q2_k) X(q3_k) X(q4_k) X(q5_k) \
  X(q6_k) X(iq4_nl) X(iq4_xs) X(mxfp4) X(nvfp4) X(tq1_0) X(tq2_0) X(q1_0) X(q2_0)
#define VULKAN_WEIGHT_FORMATS(X) X(f32) X(f16) X(bf16) VULKAN_BLOCK_FORMATS(X)
// clang-format on

namespace onepass::ops {

// As numbered in ops/shared/vulkan.glsl and quant/blocks.glsl.
static_assert(static_cast<int>(DType::bf16) == 2 && static_cast<int>(DType::q4_0) == 7 &&
              static_cast<int>(DType::q6_k) == 16 && static_cast<int>(DType::iq4_nl) == 24 &&
              static_cast<int>(DType::q2_0) == 31);

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

constexpr std::uint32_t type_value(Format format) noexcept {
  return static_cast<std::uint32_t>(format.type);
}

}  // namespace onepass::ops
