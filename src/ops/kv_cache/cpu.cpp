#include "core/kernel_row.h"
#include "ops/kv_cache/kernels.h"
#include "ops/shared/simd16.h"

namespace onepass::ops {

namespace base {
std::span<const KernelRow> kv_cache_kernels() noexcept;
}
#if defined(ONEPASS_HAS_X86)
namespace avx2 {
std::span<const KernelRow> kv_cache_kernels() noexcept;
}
namespace avx512 {
std::span<const KernelRow> kv_cache_kernels() noexcept;
}
#elif defined(ONEPASS_HAS_NEON)
namespace neon {
std::span<const KernelRow> kv_cache_kernels() noexcept;
}
#endif

std::span<const KernelRow> kv_cache_cpu_kernels() noexcept {
  static const IsaRows<96> rows({
#if defined(ONEPASS_HAS_X86)
    avx512::kv_cache_kernels(), avx2::kv_cache_kernels(),
#elif defined(ONEPASS_HAS_NEON)
    neon::kv_cache_kernels(),
#endif
        base::kv_cache_kernels(),
  });
  return rows.span();
}

}  // namespace onepass::ops
