// Functions up to end_isa.h are compiled for NEON with the dot product. The assembler knows that
// one from Armv8.2 on only.
#define OP_ISA neon
#define OP_ISA_FEATURE static_cast<std::uint32_t>(Feature::neon_dotprod)
#define OP_ISA_POP 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif
#include "ops/shared/simd16_neon.h"
