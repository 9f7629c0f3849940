#include "core/kernel_row.h"
#include "ops/norm/kernels.h"
#include "ops/norm/params.h"
#include "ops/shared/cpu.h"
#include "ops/shared/simd16.h"

// clang-format off
#include "ops/shared/begin_base.h"
#include "ops/norm/cpu_simd.h"
#include "ops/shared/end_isa.h"
