#include "core/kernel_row.h"
#include "ops/norm/kernels.h"
#include "ops/norm/params.h"
#include "ops/shared/cpu.h"
#include "ops/shared/simd16.h"

#if defined(ONEPASS_HAS_X86)
// clang-format off
#include "ops/shared/begin_avx512.h"
#include "ops/norm/cpu_simd.h"
#include "ops/shared/end_isa.h"
#endif
