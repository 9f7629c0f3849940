// CPU kernels of this family, for the backend's table, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> moe_cpu_kernels() noexcept;

inline constexpr std::uint32_t max_experts = 1024;

Status launch_moe_gate(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// A tile is a range of the elements of out.
Status launch_moe_reduce(const DeviceInfo& device, const Dispatch& d, Launch& launch);

// Units of 32 columns of a row: a tile is a range of those of all rows.
constexpr std::uint64_t gated_units(std::uint32_t dim) noexcept {
  return (std::uint64_t{dim} + 31) / 32;
}
Status launch_gated(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Only rows of whole blocks are quantized.
bool accepts_gated(const DeviceInfo& device, const Dispatch& d);

std::span<const KernelRow> moe_cuda_kernels() noexcept;  // where CUDA is compiled in
// A warp per token; a thread per four columns of a token.
Status launch_moe_gate_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_moe_reduce_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// A warp per unit.
Status launch_gated_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> moe_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
