// Rows of the CUDA kernel tables.
#pragma once

#include <span>

#include "core/kernel_row.h"

namespace onepass::ops {

struct RowOptions {
  const char* symbol = nullptr;                // entry point, where it is not the row's name
  std::span<const char* const> variants = {};  // entry points of Launch::variant 1, 2, ...
  std::uint32_t reads_early = 0;               // bits of slots that are read before the wait
  std::uint32_t needs = 0;                     // bits of Feature
  std::uint32_t cluster = 1;                   // blocks along y that are compiled to run together
};

// A kernel whose blocks wait for the kernels before them before they touch what those may write,
// and before they exit.
constexpr KernelRow waiting_row(Op op, Format format, const char* name, LaunchFn launch,
                                const RowOptions& options = {}) noexcept {
  KernelRow row = gpu_row(op, format, name, launch, {options.symbol, options.variants});
  row.start = {.waits_first = true, .reads_early = options.reads_early};
  row.needs = options.needs;
  row.cluster = options.cluster;
  return row;
}

}  // namespace onepass::ops
