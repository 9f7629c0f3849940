// Kernels of this family, for the backends' tables, and the launch arithmetic they go with.
#pragma once

#include <span>

#include "core/backend.h"

namespace onepass::ops {

// Weights that are not packed.
std::span<const KernelRow> matmul_cpu_kernels() noexcept;
// Where CUDA is compiled in: the kernels of one format of cuda_formats.def, and those of
// cuda_blocks.cu.
std::span<const KernelRow> matmul_cuda_kernels(DType format) noexcept;
std::span<const KernelRow> matmul_cuda_block_kernels() noexcept;

// What view 0 holds for weights of a format: q8a or f32.
DType matmul_input(DType weights) noexcept;

// On the CPU launch.grid is {blocks of n, blocks of m, 1}. A tile is one block of each; n fastest,
// but m fastest with packed weights, so that tiles of the same weights follow each other. There
// blocks of m have launch.group[0] rows, and blocks of n are made of whole units, groups of 16
// weight rows, and become smaller: the first launch.spec[0] blocks share one half of the units, as
// many after them half of the rest, and so on launch.spec[1] times; the last share what is left.
// So runs in memory are long, and the last ones short enough to end together.
inline constexpr std::uint32_t matmul_block_m = 32;
inline constexpr std::uint32_t matmul_packed_block_m = 128;
inline std::size_t matmul_block_begin(const Launch& launch, std::size_t block,
                                      std::size_t units) noexcept {
  const auto width = static_cast<std::size_t>(launch.spec[0].value);
  const auto halvings = static_cast<std::size_t>(launch.spec[1].value);
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

Status launch_matmul(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_matmul_bias(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_matmul_add(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_matmul_bias_add(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Blocks of n run over the rows of all weights, one after the other.
Status launch_matmul_3(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_matmul_glu(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Packed weights only; blocks of n are multiples of 32.
Status launch_matmul_glu_q(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_matmul_affine(const DeviceInfo& device, const Dispatch& d, Launch& launch);
// Blocks of m are (token, expert) pairs; with packed weights experts, if there are fewer of them.
Status launch_matmul_id(const DeviceInfo& device, const Dispatch& d, Launch& launch);

// Products of one normed row; CUDA only.
inline constexpr std::uint32_t norm_matmul_max_k = 32768;
Status launch_norm_matmul(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_norm_matmul_3(const DeviceInfo& device, const Dispatch& d, Launch& launch);
Status launch_norm_matmul_glu_q(const DeviceInfo& device, const Dispatch& d, Launch& launch);

// Every op of the family on CUDA: variant, values and sizes of launch_cuda.h.
Status launch_matmul_cuda(const DeviceInfo& device, const Dispatch& d, Launch& launch);

}  // namespace onepass::ops
