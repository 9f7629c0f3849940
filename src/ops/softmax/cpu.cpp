#include "core/kernel_row.h"
#include "ops/shared/simd16.h"
#include "ops/softmax/kernels.h"

namespace onepass::ops {

namespace base {
std::span<const KernelRow> softmax_kernels() noexcept;
}
#if defined(ONEPASS_HAS_X86)
namespace avx2 {
std::span<const KernelRow> softmax_kernels() noexcept;
}
namespace avx512 {
std::span<const KernelRow> softmax_kernels() noexcept;
}
#elif defined(ONEPASS_HAS_NEON)
namespace neon {
std::span<const KernelRow> softmax_kernels() noexcept;
}
#endif

std::span<const KernelRow> softmax_cpu_kernels() noexcept {
  static const IsaRows<96> rows({
#if defined(ONEPASS_HAS_X86)
    avx512::softmax_kernels(), avx2::softmax_kernels(),
#elif defined(ONEPASS_HAS_NEON)
    neon::softmax_kernels(),
#endif
        base::softmax_kernels(),
  });
  return rows.span();
}

}  // namespace onepass::ops
