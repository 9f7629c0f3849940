#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/kernel_row.h"
#include "onepass/device.h"
#include "ops/quantize/kernels.h"
#include "ops/quantize/params.h"
#include "ops/shared/simd16.h"

#if ONEPASS_HAS_X86
// clang-format off
#include "ops/shared/begin_avx512.h"
#include "ops/quantize/cpu_simd.h"
#include "ops/shared/end_isa.h"
// clang-format on
#endif

namespace onepass::ops {

std::span<const KernelRow> quantize_avx512_kernels() noexcept {
#if ONEPASS_HAS_X86
  return avx512::quantize_kernels;
#else
  return {};
#endif
}

}  // namespace onepass::ops
