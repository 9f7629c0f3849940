// Makes rows of the op families' kernel tables.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "core/backend.h"

namespace onepass {

// Rows of one family for several instruction sets, best first, as one list.
template <std::size_t Max>
class IsaRows {
 public:
  explicit IsaRows(std::initializer_list<std::span<const KernelRow>> lists) noexcept {
    for (const std::span<const KernelRow> list : lists) {
      for (const KernelRow& row : list) {
        if (count_ < Max) rows_[count_++] = row;
      }
    }
  }
  std::span<const KernelRow> span() const noexcept { return {rows_.data(), count_}; }

 private:
  std::array<KernelRow, Max> rows_{};
  std::size_t count_ = 0;
};

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
