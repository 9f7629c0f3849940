#include "core/kernel_row.h"
#include "ops/rope/kernels.h"
#include "ops/shared/simd16.h"

namespace onepass::ops {

namespace base {
std::span<const KernelRow> rope_kernels() noexcept;
}
#if defined(ONEPASS_HAS_X86)
namespace avx2 {
std::span<const KernelRow> rope_kernels() noexcept;
}
namespace avx512 {
std::span<const KernelRow> rope_kernels() noexcept;
}
#elif defined(ONEPASS_HAS_NEON)
namespace neon {
std::span<const KernelRow> rope_kernels() noexcept;
}
#endif

std::span<const KernelRow> rope_cpu_kernels() noexcept {
  static const IsaRows<96> rows({
#if defined(ONEPASS_HAS_X86)
    avx512::rope_kernels(), avx2::rope_kernels(),
#elif defined(ONEPASS_HAS_NEON)
    neon::rope_kernels(),
#endif
        base::rope_kernels(),
  });
  return rows.span();
}

}  // namespace onepass::ops
