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

// clang-format off
#include "ops/shared/begin_base.h"
#include "ops/matmul/cpu_forms.h"
#include "ops/matmul/cpu_simd.h"
#include "ops/shared/end_isa.h"
// clang-format on

namespace onepass::ops {

std::span<const KernelRow> matmul_base_kernels() noexcept { return base::packed_kernels; }

}  // namespace onepass::ops
