// Words that C++, CUDA and GLSL spell differently, for headers that all three include.
#ifndef ONEPASS_OPS_SHARED_LANG_H_
#define ONEPASS_OPS_SHARED_LANG_H_

#ifdef OP_GLSL

#define OP_FN
#define OP_BEGIN_NAMESPACE
#define OP_END_NAMESPACE
#define op_u32 uint
#define op_i32 int

float op_from_bits(op_u32 bits) { return uintBitsToFloat(bits); }
op_u32 op_to_bits(float x) { return floatBitsToUint(x); }
float op_sqrt(float x) { return sqrt(x); }
op_i32 op_to_int(float x) { return int(x); }
float op_from_int(op_i32 x) { return float(x); }
float op_from_uint(op_u32 x) { return float(x); }

#else

#ifdef __CUDACC__
#define OP_FN __host__ __device__ inline
#else
#define OP_FN inline
#endif
#define OP_BEGIN_NAMESPACE namespace onepass::ops {
#define OP_END_NAMESPACE }

#include <cmath>
#include <cstdint>

OP_BEGIN_NAMESPACE
using op_u32 = std::uint32_t;
using op_i32 = std::int32_t;

OP_FN float op_from_bits(op_u32 bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
OP_FN op_u32 op_to_bits(float x) {
  op_u32 bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}
OP_FN float op_sqrt(float x) { return ::sqrtf(x); }
OP_FN op_i32 op_to_int(float x) { return static_cast<op_i32>(x); }
OP_FN float op_from_int(op_i32 x) { return static_cast<float>(x); }
OP_FN float op_from_uint(op_u32 x) { return static_cast<float>(x); }
OP_END_NAMESPACE

#endif

#endif  // ONEPASS_OPS_SHARED_LANG_H_
