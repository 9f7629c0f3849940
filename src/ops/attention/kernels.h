// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

// On the CPU a tile is a block of rows, one kv head, and a share of the
// keys where there would be too few tiles otherwise (launch_tiling.h).
Status launch_attention(const DeviceInfo& device, const Dispatch& d, Launch& launch);

std::span<const KernelRow> attention_cuda_kernels() noexcept;  // where CUDA is compiled in
// Launch::variant on CUDA: any types and heads, or f16 keys and values and heads of this size; of
// few rows or of many.
enum class AttentionVariant : std::uint16_t { plain, f16_64, f16_128, f16_256, rows_64, rows_128 };
// Grid and scratch as launch_cuda.h says.
Status launch_attention_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);

std::span<const KernelRow> attention_cluster_kernels() noexcept;
// One row, halves in the caches, heads of 64 or 128 elements that turn whole, at most split_queries
// of them for one of the caches.
bool accepts_rope_attention(const DeviceInfo& device, const Dispatch& d);
// Launch::variant 0: heads of 64 elements, 1: of 128.
Status launch_rope_attention_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
std::span<const KernelRow> attention_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
