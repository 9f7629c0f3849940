// Sixteen lanes of f32 or i32 with the same results on every instruction set.
//
//   #include "ops/norm/cpu_simd.h"       // OP_ISA is not defined: the headers its kernels use
//   #include "ops/shared/simd16.h"
//   #include "ops/shared/simd16_avx2.h"  // from here on functions are compiled for AVX2
//   #include "ops/norm/cpu_simd.h"       // OP_ISA is: namespace onepass::ops::OP_ISA, uses Simd
//   #include "ops/shared/end_isa.h"
//
// is what ops/simd_unit.cpp.in does for each instruction set of isa.def. Their headers simd16_*.h
// define the macro OP_ISA and the struct onepass::ops::OP_ISA::Simd:
//   F, I, B, M             16 f32, 16 i32, 64 bytes, 16 truth values
//   min(a, b), max(a, b)   a < b ? a : b, a > b ? a : b: the second one where there is a NaN
//   fma(a, b, c)           a * b + c rounded once; fnma: c - a * b
//   to_int                 truncates; defined within the range of i32 only
//   sum, max_lane          tree: lane i with i + 8, then i + 4, i + 2, i + 1
//   sums(a)                lane i: sum(a[i]), of 16 F
//   swap_pairs             lanes 2 i and 2 i + 1 exchanged
//   *_part(p, n)           touch the first n < 16 elements of memory only; other lanes load as 0
//   add_b, first_trit      per byte: the sum modulo 256; 3 a / 256, the first base-3 digit of a /
//   256 repeat16, lookup16     16 bytes four times; byte i of their places `index`, each below 16
//   bytes(a)               the 64 bytes of an I
//   halves(low, high)      lane i: the low 16 bits of low[i] and the high ones of high[i]
//   words_at<N>(table, i)  both 16-bit halves of every lane are places in a table of N words, which
//                          are their results; the table is aligned to 64 bytes
//   dot16<Bits>            four B of unsigned Bits-bit numbers (row r: bytes 4 r .. 4 r + 3) with
//   16
//                          signed bytes at x, exact, added to an I; x above -128
//   pair_dot               c.first * s[0] + c.second * s[1] for two i16 at s, two per lane of c
// and the functions exp, tanh, sigmoid, silu, gelu of simd16_math.h, equal to those of scalar.h.
//
// Code between simd16_*.h and end_isa.h lives inside onepass::ops::OP_ISA, uses no lambdas (clang
// does not compile them for the instruction set) and no functions of the standard library: the
// linker keeps one copy of an inline function for all instruction sets.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/shared/scalar.h"

#if defined(__x86_64__)
#define ONEPASS_HAS_X86 1
#define ONEPASS_HAS_NEON 0
#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 takes the undefined registers of these headers for uninitialised variables.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif
#elif defined(__aarch64__)
#define ONEPASS_HAS_X86 0
#define ONEPASS_HAS_NEON 1
#include <arm_neon.h>
#else
#define ONEPASS_HAS_X86 0
#define ONEPASS_HAS_NEON 0
#endif

#define OP_INLINE inline __attribute__((always_inline))
#define OP_NOINLINE __attribute__((noinline))
