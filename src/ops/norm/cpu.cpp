#include "core/kernel_row.h"
#include "ops/norm/kernels.h"
#include "ops/shared/simd16.h"

namespace onepass::ops {

namespace base {
std::span<const KernelRow> norm_kernels() noexcept;
}
#if defined(ONEPASS_HAS_X86)
namespace avx2 {
std::span<const KernelRow> norm_kernels() noexcept;
}
namespace avx512 {
std::span<const KernelRow> norm_kernels() noexcept;
}
#elif defined(ONEPASS_HAS_NEON)
namespace neon {
std::span<const KernelRow> norm_kernels() noexcept;
}
#endif

std::span<const KernelRow> norm_cpu_kernels() noexcept {
  static const IsaRows<96> rows({
#if defined(ONEPASS_HAS_X86)
    avx512::norm_kernels(), avx2::norm_kernels(),
#elif defined(ONEPASS_HAS_NEON)
    neon::norm_kernels(),
#endif
        base::norm_kernels(),
  });
  return rows.span();
}

}  // namespace onepass::ops
