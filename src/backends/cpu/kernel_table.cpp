#include <initializer_list>
#include <span>
#include <vector>

#include "backends/cpu/cpu.h"
#include "ops/attention/kernels.h"
#include "ops/elementwise/kernels.h"
#include "ops/embed/kernels.h"
#include "ops/kv_cache/kernels.h"
#include "ops/matmul/kernels.h"
#include "ops/norm/kernels.h"
#include "ops/rope/kernels.h"
#include "ops/sample/kernels.h"
#include "ops/softmax/kernels.h"

namespace onepass {
namespace {

std::vector<KernelRow> collect(std::initializer_list<std::span<const KernelRow>> families) {
  std::vector<KernelRow> rows;
  for (const std::span<const KernelRow> family : families)
    rows.insert(rows.end(), family.begin(), family.end());
  return rows;
}

}  // namespace

std::span<const KernelRow> cpu_kernel_rows() noexcept {
  static const std::vector<KernelRow> rows = collect({
      ops::norm_cpu_kernels(),
      ops::elementwise_cpu_kernels(),
      ops::softmax_cpu_kernels(),
      ops::rope_cpu_kernels(),
      ops::matmul_cpu_kernels(),
      ops::attention_cpu_kernels(),
      ops::kv_cache_cpu_kernels(),
      ops::embed_cpu_kernels(),
      ops::sample_cpu_kernels(),
  });
  return rows;
}

}  // namespace onepass
