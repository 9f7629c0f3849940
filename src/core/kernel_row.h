// Makes rows of the op families' kernel tables.
#pragma once

#include "core/backend.h"

namespace onepass {

constexpr CapturedOpKind captured_kind(Op op) noexcept {
  switch (op) {
#define OP(name, Params, slots, kind, captured) \
  case Op::name:                                \
    return CapturedOpKind::captured;
#include "onepass/tables/ops.def"
#undef OP
    default:
      return CapturedOpKind::other;
  }
}

constexpr KernelRow cpu_row(Op op, DType format, const char* name, LaunchFn launch, CpuKernelFn cpu,
                            std::uint32_t needs = 0) noexcept {
  KernelRow row;
  row.needs = needs;
  row.op = op;
  row.format = format;
  row.name = name;
  row.launch = launch;
  row.cpu = cpu;
  row.kind = captured_kind(op);
  return row;
}

// The entry point has the row's name.
constexpr KernelRow gpu_row(Op op, DType format, const char* name, LaunchFn launch) noexcept {
  KernelRow row;
  row.op = op;
  row.format = format;
  row.name = name;
  row.launch = launch;
  row.symbol = name;
  row.kind = captured_kind(op);
  return row;
}

}  // namespace onepass
