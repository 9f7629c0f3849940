#include "core/kernel_row.h"
#include "ops/shared/cpu.h"
#include "ops/shared/simd16.h"
#include "ops/softmax/kernels.h"
#include "ops/softmax/params.h"

// clang-format off
#include "ops/shared/begin_base.h"
#include "ops/softmax/cpu_simd.h"
#include "ops/shared/end_isa.h"
