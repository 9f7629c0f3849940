#include "core/kernel_row.h"
#include "ops/shared/cpu.h"
#include "ops/shared/simd16.h"
#include "ops/softmax/kernels.h"
#include "ops/softmax/params.h"

#if defined(ONEPASS_HAS_X86)
// clang-format off
#include "ops/shared/begin_avx512.h"
#include "ops/softmax/cpu_simd.h"
#include "ops/shared/end_isa.h"
#endif
