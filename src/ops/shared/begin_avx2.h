// Functions up to end_isa.h are compiled for AVX2, FMA and F16C.
#define OP_ISA avx2
#define OP_ISA_FEATURE static_cast<std::uint32_t>(Feature::avx2)
#define OP_ISA_POP 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#include "ops/shared/simd16_avx2.h"
