#include "core/kernel_row.h"
#include "ops/attention/kernels.h"
#include "ops/shared/simd16.h"

namespace onepass::ops {

namespace base {
std::span<const KernelRow> attention_kernels() noexcept;
}
#if defined(ONEPASS_HAS_X86)
namespace avx2 {
std::span<const KernelRow> attention_kernels() noexcept;
}
namespace avx512 {
std::span<const KernelRow> attention_kernels() noexcept;
}
#elif defined(ONEPASS_HAS_NEON)
namespace neon {
std::span<const KernelRow> attention_kernels() noexcept;
}
#endif

std::span<const KernelRow> attention_cpu_kernels() noexcept {
  static const IsaRows<96> rows({
#if defined(ONEPASS_HAS_X86)
    avx512::attention_kernels(), avx2::attention_kernels(),
#elif defined(ONEPASS_HAS_NEON)
    neon::attention_kernels(),
#endif
        base::attention_kernels(),
  });
  return rows.span();
}

}  // namespace onepass::ops
