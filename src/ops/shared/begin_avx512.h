// Functions up to end_isa.h are compiled for AVX-512 F, BW, VL and VNNI.
#define OP_ISA avx512
#define OP_ISA_FEATURE static_cast<std::uint32_t>(Feature::avx512_vnni)
#define OP_ISA_POP 1
#if defined(__clang__)
#pragma clang attribute push(                                                      \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")
#endif
#include "ops/shared/simd16_avx512.h"
