// A launch as its kernel sees it. Needs no CUDA header.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <variant>
#include <vector>

#include "backends/cuda/args.h"
#include "core/backend.h"
#include "onepass/cuda_kernel.h"

namespace onepass::cuda {

inline void* address_of(const BoundView& view) noexcept {
  return view.memory.handle == 0 ? nullptr
                                 : reinterpret_cast<void*>(view.memory.handle + view.offset);
}

// The inline blocks of all launches of a recording as they are to lie in device memory, 16-byte
// aligned.
struct InlineBlocks {
  std::vector<std::byte> bytes;
  std::vector<std::uint64_t> offsets;  // of a launch's first block

  static std::uint64_t padded(std::uint64_t bytes) noexcept { return (bytes + 15) / 16 * 16; }

  explicit InlineBlocks(const Recording& recording) {
    offsets.reserve(recording.launches.size());
    for (const RecordedLaunch& l : recording.launches) {
      offsets.push_back(bytes.size());
      if (l.extra == nullptr) continue;
      for (const DispatchExtra::Block& b : l.extra->blocks) {
        bytes.insert(bytes.end(), b.bytes.begin(), b.bytes.end());
        bytes.resize(padded(bytes.size()));
      }
    }
  }
};

// What the one parameter of a kernel points to: the second for callers' kernels.
using Arguments = std::variant<CudaArgs, CudaKernelArgs>;

inline void* address_of(Arguments& args) noexcept {
  return std::visit([](auto& a) -> void* { return &a; }, args);
}

inline CudaArgs builtin_arguments(const RecordedLaunch& l) noexcept {
  static_assert(std::size(CudaArgs{}.views) == max_views);
  static_assert(sizeof(CudaArgs{}.params) == max_params_bytes);
  static_assert(std::size(CudaArgs{}.values) == max_spec_values);
  CudaArgs args{};
  for (std::size_t i = 0; i < l.n_views; ++i) {
    args.views[i] = address_of(l.views[i]);
    args.bytes[i] = l.views[i].bytes;
  }
  std::memcpy(args.params, l.params.data(), sizeof(args.params));
  args.scratch = address_of(l.scratch);
  args.persistent = address_of(l.persistent);
  for (std::size_t i = 0; i < l.launch.n_spec; ++i) {
    const SpecValue& spec = l.launch.spec[i];
    if (spec.index < max_spec_values) args.values[spec.index] = static_cast<unsigned>(spec.value);
  }
  return args;
}

// blocks: where the launch's inline blocks begin on the device.
inline CudaKernelArgs callers_arguments(const RecordedLaunch& l, std::uint64_t blocks) noexcept {
  static_assert(std::size(CudaKernelArgs{}.slots) == max_kernel_slots);
  static_assert(sizeof(CudaKernelArgs{}.params) == max_params_bytes);
  static_assert(std::size(CudaKernelArgs{}.values) == max_spec_values);
  CudaKernelArgs args{};
  std::memcpy(args.params, l.params.data(), sizeof(args.params));
  for (std::uint32_t i = 0; i < l.n_views; ++i) {
    const std::uint32_t slot = l.extra ? l.extra->slots[i] : i;
    args.slots[slot] = address_of(l.views[i]);
    args.bytes[slot] = l.views[i].bytes;
  }
  args.scratch = address_of(l.scratch);
  args.persistent = address_of(l.persistent);
  for (std::size_t i = 0; i < l.launch.n_spec; ++i) {
    const SpecValue& spec = l.launch.spec[i];
    if (spec.index < max_spec_values) args.values[spec.index] = spec.value;
  }
  const bool counts_threads = l.kernel->launch == nullptr && l.grid.kind == DispatchKind::threads;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::uint64_t all = std::uint64_t{l.launch.grid[i]} * l.launch.group[i];
    args.threads[i] = counts_threads
                          ? l.grid.grid[i]
                          : static_cast<unsigned>(std::min<std::uint64_t>(all, 0xffffffffu));
    args.group[i] = l.launch.group[i];
  }
  if (l.extra == nullptr) return args;
  for (const DispatchExtra::Block& b : l.extra->blocks) {
    if (!b.bytes.empty()) args.slots[b.slot] = reinterpret_cast<void*>(blocks);
    args.bytes[b.slot] = b.bytes.size();
    blocks += InlineBlocks::padded(b.bytes.size());
  }
  for (std::size_t i = 0; i < l.extra->shared.size(); ++i) {
    const DispatchExtra::Shared& s = l.extra->shared[i];
    args.group_memory_at[s.slot] = static_cast<unsigned>(l.extra->group_offset(i));
    args.group_memory_size[s.slot] = s.bytes;
  }
  return args;
}

inline Arguments arguments_of(const RecordedLaunch& l, std::uint64_t blocks) noexcept {
  if (built_handle(*l.kernel) == 0) return builtin_arguments(l);
  return callers_arguments(l, blocks);
}

}  // namespace onepass::cuda
