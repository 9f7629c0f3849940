// Ends what a simd16_*.h of an instruction set started.
#if OP_ISA_POP
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
#undef OP_ISA
#undef OP_ISA_FEATURE
#undef OP_ISA_POP
