// Rows of the CUDA kernel tables.
#pragma once

#include "core/kernel_row.h"

namespace onepass::ops {

// A kernel whose blocks wait for the kernels before them before they touch what those may write,
// and before they exit. Several rows may share an entry point.
constexpr KernelRow waiting_row(Op op, DType format, const char* name, LaunchFn launch,
                                const char* symbol = nullptr) noexcept {
  KernelRow row = gpu_row(op, format, name, launch);
  if (symbol != nullptr) row.symbol = symbol;
  row.waits_first = true;
  return row;
}

}  // namespace onepass::ops
