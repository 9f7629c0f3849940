#include "core/kernel_row.h"
#include "ops/elementwise/kernels.h"
#include "ops/shared/simd16.h"

namespace onepass::ops {

namespace base {
std::span<const KernelRow> elementwise_kernels() noexcept;
}
#if defined(ONEPASS_HAS_X86)
namespace avx2 {
std::span<const KernelRow> elementwise_kernels() noexcept;
}
namespace avx512 {
std::span<const KernelRow> elementwise_kernels() noexcept;
}
#elif defined(ONEPASS_HAS_NEON)
namespace neon {
std::span<const KernelRow> elementwise_kernels() noexcept;
}
#endif

std::span<const KernelRow> elementwise_cpu_kernels() noexcept {
  static const IsaRows<192> rows({
#if defined(ONEPASS_HAS_X86)
    avx512::elementwise_kernels(), avx2::elementwise_kernels(),
#elif defined(ONEPASS_HAS_NEON)
    neon::elementwise_kernels(),
#endif
        base::elementwise_kernels(),
  });
  return rows.span();
}

}  // namespace onepass::ops
