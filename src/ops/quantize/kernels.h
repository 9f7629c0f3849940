// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

std::span<const KernelRow> quantize_cpu_kernels() noexcept;
// The parts of quantize_cpu_kernels() for each instruction set; empty where there is no such one.
std::span<const KernelRow> quantize_base_kernels() noexcept;
std::span<const KernelRow> quantize_avx2_kernels() noexcept;
std::span<const KernelRow> quantize_avx512_kernels() noexcept;
std::span<const KernelRow> quantize_neon_kernels() noexcept;

// Tiles are runs of blocks, of one row after the other.
Status launch_quantize(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
