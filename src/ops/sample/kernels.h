// CPU kernels of this family, for the backend's table, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> sample_cpu_kernels() noexcept;

// A row longer than select_chunk is cut in grid[0] chunks. Each tile leaves the largest numbers of
// its chunk in scratch; the last tile of a row selects among them. Above select_few it sorts the
// whole row, for which there is room for all its numbers twice.
inline constexpr std::uint32_t select_chunk = 8192;
inline constexpr std::uint32_t select_few = 512;

// How many of a row's numbers `sample` sorts.
constexpr std::uint32_t sample_keeps(std::uint32_t cols, std::uint32_t top_k,
                                     float temperature) noexcept {
  if (temperature == 0.0f) return 1;
  return top_k == 0 || top_k > cols ? cols : top_k;
}

Status launch_argmax(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_argsort(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_top_k(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_sample(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_step_advance(const DeviceInfo& device, const Dispatch& d, Launch& launch);

std::span<const KernelRow> sample_cuda_kernels() noexcept;  // where CUDA is compiled in
// argmax: groups in x share a row, groups in y are rows; the last group of a row combines. Others:
// a group per row.
Status launch_argmax_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_argsort_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_top_k_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_sample_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_step_advance_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> sample_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
