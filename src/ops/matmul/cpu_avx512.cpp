#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "core/kernel_row.h"
#include "onepass/device.h"
#include "ops/matmul/kernels.h"
#include "ops/matmul/params.h"
#include "ops/shared/simd16.h"
#include "quant/packed.h"

#if ONEPASS_HAS_X86
// clang-format off
#include "ops/shared/begin_avx512.h"
#include "ops/matmul/cpu_forms.h"
#include "ops/matmul/cpu_simd.h"
#include "ops/shared/end_isa.h"
// clang-format on
#endif

namespace onepass::ops {

std::span<const KernelRow> matmul_avx512_kernels() noexcept {
#if ONEPASS_HAS_X86
  return avx512::packed_kernels;
#else
  return {};
#endif
}

}  // namespace onepass::ops
