// A launch as its kernel sees it. Needs no CUDA header.
#pragma once

#include <cstring>
#include <iterator>

#include "backends/cuda/args.h"
#include "core/backend.h"

namespace onepass::cuda {

inline void* address_of(const BoundView& view) noexcept {
  return view.memory.handle == 0 ? nullptr
                                 : reinterpret_cast<void*>(view.memory.handle + view.offset);
}

inline CudaArgs arguments_of(const RecordedLaunch& l) noexcept {
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

// Nothing to run: a fence, or no groups.
inline bool is_empty(const RecordedLaunch& l) noexcept {
  const auto& grid = l.launch.grid;
  return l.is_fence() || grid[0] == 0 || grid[1] == 0 || grid[2] == 0;
}

}  // namespace onepass::cuda
