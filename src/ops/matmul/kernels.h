// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

// Weights that are not packed.
std::span<const KernelRow> matmul_cpu_kernels() noexcept;
// Where CUDA is compiled in: the kernels of one format of cuda_formats.def, and those of
// cuda_blocks.cu.
std::span<const KernelRow> matmul_cuda_kernels(Format format) noexcept;
std::span<const KernelRow> matmul_cuda_block_kernels() noexcept;

// What view 0 holds for weights of a format, unless it is normed first: q8a or f32.
DType matmul_input(Format weights) noexcept;

// On the CPU a tile is one of launch.grid[0] blocks of n and one of launch.grid[1] blocks of m; n
// fastest, but m fastest with packed weights, so that tiles of the same weights follow each other.
// There blocks of m have launch.group[0] rows, and blocks of n are made of whole units, groups of
// 16 weight rows, and become smaller, in launch.grid[2] turns: the grid[0] blocks of the first
// share one half of the units, those of the second half of the rest, and so on; the last share what
// is left. So runs in memory are long, and the last ones short enough to end together.
inline constexpr std::uint32_t matmul_block_m = 32;
inline constexpr std::uint32_t matmul_packed_block_m = 128;
inline std::size_t matmul_block_begin(const Launch& launch, std::size_t block,
                                      std::size_t units) noexcept {
  const std::size_t width = launch.grid[0], halvings = launch.grid[2] - 1;
  const std::size_t turn = block / width < halvings ? block / width : halvings;
  const std::size_t parts = width << halvings;
  const std::size_t size = turn < halvings ? std::size_t{1} << (halvings - turn - 1) : 1;
  return units * (parts - (parts >> turn) + (block - turn * width) * size) / parts;
}

// How rows that take q8a get it from f32; of Op::matmul and Op::matmul_id.
bool quantize_x(const Dispatch& product, Dispatch& conversion, std::uint64_t& bytes);

// Of weights that are larger than one binding: launches over rows, of experts over experts.
Status lower_matmul(const DeviceInfo& device, const Dispatch& d, LaunchList& launches);
Status lower_matmul_affine(const DeviceInfo& device, const Dispatch& d, LaunchList& launches);
Status lower_matmul_id(const DeviceInfo& device, const Dispatch& d, LaunchList& launches);
constexpr LowerFn matmul_lower(Op op) noexcept {
  return op == Op::matmul          ? lower_matmul
         : op == Op::matmul_affine ? lower_matmul_affine
         : op == Op::matmul_id     ? lower_matmul_id
                                   : nullptr;
}

// Blocks of n run over the rows of all parts, one after the other; with a quantized output they are
// multiples of 32.
Status launch_matmul(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Forms and views of a matmul, without a launch.
Status check_matmul(const Dispatch& d);
// A gate takes no residual, and only a gate of whole blocks is quantized.
bool accepts_cpu_matmul(const DeviceInfo& device, const Dispatch& d);
Status launch_matmul_affine(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Blocks of m are (token, expert) pairs; with packed weights experts, if there are fewer of them.
Status launch_matmul_id(const DeviceInfo& device, const Dispatch& d, Launch& launch);

// Every op of the family on CUDA: variant, values and sizes of launch_cuda.h.
Status launch_matmul_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// A gate takes no bias and no residual, and is all that is quantized.
bool accepts_cuda_matmul(const DeviceInfo& device, const Dispatch& d);
// One normed row of a multiple of 32 values, at most norm_matmul_max_k, with a weight; x, weights
// and the norm's weight at multiples of 16 bytes. Plain, parts, or a quantized gate.
inline constexpr std::uint32_t norm_matmul_max_k = 32768;
bool accepts_normed_matmul(const DeviceInfo& device, const Dispatch& d);
std::span<const KernelRow> matmul_vulkan_kernels() noexcept;  // where Vulkan is compiled in

}  // namespace onepass::ops
