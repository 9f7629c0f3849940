#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "backends/cpu/cpu.h"
#include "ops/attention/kernels.h"
#include "ops/elementwise/kernels.h"
#include "ops/embed/kernels.h"
#include "ops/kv_cache/kernels.h"
#include "ops/matmul/kernels.h"
#include "ops/moe/kernels.h"
#include "ops/move/kernels.h"
#include "ops/norm/kernels.h"
#include "ops/quantize/kernels.h"
#include "ops/rope/kernels.h"
#include "ops/sample/kernels.h"
#include "ops/softmax/kernels.h"

namespace onepass {
namespace {

// No heap: the first use may be while there is no memory.
struct Rows {
  explicit Rows(std::initializer_list<std::span<const KernelRow>> families) noexcept {
    for (const std::span<const KernelRow> family : families) {
      for (const KernelRow& row : family) {
        if (count < rows.size()) rows[count++] = row;
      }
    }
  }
  // One row per op and format, and as many again for variants.
  std::array<KernelRow,
             2 * static_cast<std::size_t>(Op::count_) * static_cast<std::size_t>(DType::count_)>
      rows;
  std::size_t count = 0;
};

}  // namespace

std::span<const KernelRow> cpu_kernel_rows() noexcept {
  static const Rows table({
      ops::norm_cpu_kernels(),
      ops::elementwise_cpu_kernels(),
      ops::move_cpu_kernels(),
      ops::moe_cpu_kernels(),
      ops::softmax_cpu_kernels(),
      ops::rope_cpu_kernels(),
      ops::matmul_cpu_kernels(),
      ops::quantize_cpu_kernels(),
      ops::attention_cpu_kernels(),
      ops::kv_cache_cpu_kernels(),
      ops::embed_cpu_kernels(),
      ops::sample_cpu_kernels(),
  });
  return {table.rows.data(), table.count};
}

}  // namespace onepass
