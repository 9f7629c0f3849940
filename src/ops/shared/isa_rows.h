// Kernel rows of one family for several instruction sets, best first, as one list.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "core/backend.h"

namespace onepass::ops {

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

}  // namespace onepass::ops
