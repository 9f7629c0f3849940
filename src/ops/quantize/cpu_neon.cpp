#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/kernel_row.h"
#include "onepass/device.h"
#include "ops/quantize/kernels.h"
#include "ops/quantize/params.h"
#include "ops/shared/simd16.h"

#if ONEPASS_HAS_NEON
// clang-format off
#include "ops/shared/begin_neon.h"
#include "ops/quantize/cpu_simd.h"
#include "ops/shared/end_isa.h"
// clang-format on
#endif

namespace onepass::ops {

std::span<const KernelRow> quantize_neon_kernels() noexcept {
#if ONEPASS_HAS_NEON
  return neon::quantize_kernels;
#else
  return {};
#endif
}

}  // namespace onepass::ops
