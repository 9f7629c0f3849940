#include "core/kernel_row.h"
#include "ops/rope/kernels.h"
#include "ops/rope/params.h"
#include "ops/shared/cache.h"
#include "ops/shared/cpu.h"
#include "ops/shared/simd16.h"

#if defined(ONEPASS_HAS_X86)
// clang-format off
#include "ops/shared/begin_avx512.h"
#include "ops/rope/cpu_simd.h"
#include "ops/shared/end_isa.h"
#endif
