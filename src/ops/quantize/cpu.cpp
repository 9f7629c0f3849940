#include <array>

#include "core/kernel_row.h"
#include "ops/quantize/kernels.h"

namespace onepass::ops {
namespace {

// Rows of the best instruction set first.
struct Rows {
  std::array<KernelRow, 64> rows;
  std::size_t count = 0;

  Rows() noexcept {
    for (const std::span<const KernelRow> part :
         {quantize_avx512_kernels(), quantize_avx2_kernels(), quantize_neon_kernels(),
          quantize_base_kernels(), quantize_block_kernels()}) {
      for (const KernelRow& row : part) {
        if (count < rows.size()) rows[count++] = row;
      }
    }
  }
};

}  // namespace

std::span<const KernelRow> quantize_cpu_kernels() noexcept {
  static const Rows table;
  return {table.rows.data(), table.count};
}

}  // namespace onepass::ops
