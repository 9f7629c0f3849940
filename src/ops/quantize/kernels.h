// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

// Block formats, and the way back from every format.
std::span<const KernelRow> quantize_cpu_kernels() noexcept;

// Tiles are runs of blocks, of one row after the other.
Status launch_quantize(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_dequantize(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Tiles are whole rows.
Status launch_dequantize_rows(const DeviceInfo& device, const Dispatch& d, Launch& launch);

std::span<const KernelRow> quantize_cuda_kernels() noexcept;  // where CUDA is compiled in
// A thread per four values; to a block format one per block.
Status launch_quantize_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_dequantize_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> quantize_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
