#include "core/kernel_row.h"
#include "ops/attention/kernels.h"
#include "ops/attention/launch_tiling.h"
#include "ops/attention/params.h"
#include "ops/shared/cache.h"
#include "ops/shared/cpu.h"
#include "ops/shared/simd16.h"

#if defined(ONEPASS_HAS_NEON)
// clang-format off
#include "ops/shared/begin_neon.h"
#include "ops/attention/cpu_simd.h"
#include "ops/shared/end_isa.h"
#endif
