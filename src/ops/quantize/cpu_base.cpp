#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/kernel_row.h"
#include "onepass/device.h"
#include "ops/quantize/kernels.h"
#include "ops/quantize/params.h"
#include "ops/shared/simd16.h"

// clang-format off
#include "ops/shared/begin_base.h"
#include "ops/quantize/cpu_simd.h"
#include "ops/shared/end_isa.h"
// clang-format on

namespace onepass::ops {

std::span<const KernelRow> quantize_base_kernels() noexcept { return base::quantize_kernels; }

}  // namespace onepass::ops
