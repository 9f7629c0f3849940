#include "core/kernel_row.h"
#include "ops/elementwise/kernels.h"
#include "ops/elementwise/params.h"
#include "ops/shared/cpu.h"
#include "ops/shared/halves.h"
#include "ops/shared/simd16.h"

#if defined(ONEPASS_HAS_X86)
// clang-format off
#include "ops/shared/begin_avx512.h"
#include "ops/elementwise/cpu_simd.h"
#include "ops/shared/end_isa.h"
#endif
