// Elements of f32, f16 and bf16 rows, four at a time, and what the quantized rows are made of.
#ifndef ONEPASS_OPS_SHARED_CUDA_ELEMENTS_CUH_
#define ONEPASS_OPS_SHARED_CUDA_ELEMENTS_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "ops/shared/cuda.cuh"
#include "ops/shared/cuda_ptx.cuh"
#include "ops/shared/scalar.h"

namespace onepass::ops {

struct Half {
  std::uint16_t bits;
};
struct Bfloat {
  std::uint16_t bits;
};

__device__ inline float half_bits_to_float(std::uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ inline std::uint32_t float_to_half_bits(float x) {
  return __half_as_ushort(__float2half_rn(x));
}

__device__ inline float as_float(float x) { return x; }
__device__ inline float as_float(Half x) { return half_bits_to_float(x.bits); }
__device__ inline float as_float(Bfloat x) { return op_bf16_to_f32(x.bits); }

template <class T>
__device__ T round_to(float x);
template <>
__device__ inline float round_to<float>(float x) {
  return x;
}
template <>
__device__ inline Half round_to<Half>(float x) {
  return Half{static_cast<std::uint16_t>(float_to_half_bits(x))};
}
template <>
__device__ inline Bfloat round_to<Bfloat>(float x) {
  return Bfloat{__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}

// Whether four elements may be accessed at once where i % 4 == 0.
template <class T>
__device__ inline bool is_aligned_4(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % (4 * sizeof(T)) == 0;
}

// Elements [i, i + 4) of an array of n; zeros beyond its end. wide: is_aligned_4(p), and i and n
// are multiples of 4.
template <class T>
__device__ inline float4 load_row_4(const T* p, std::uint64_t i, std::uint64_t n, bool wide) {
  if (wide) {
    if constexpr (sizeof(T) == 4) {
      return *reinterpret_cast<const float4*>(p + i);
    } else {
      const uint2 v = *reinterpret_cast<const uint2*>(p + i);
      const auto low = [](std::uint32_t w) { return T{static_cast<std::uint16_t>(w)}; };
      const auto high = [](std::uint32_t w) { return T{static_cast<std::uint16_t>(w >> 16)}; };
      return make_float4(as_float(low(v.x)), as_float(high(v.x)), as_float(low(v.y)),
                         as_float(high(v.y)));
    }
  }
  float4 v;
  v.x = i < n ? as_float(p[i]) : 0.0f;
  v.y = i + 1 < n ? as_float(p[i + 1]) : 0.0f;
  v.z = i + 2 < n ? as_float(p[i + 2]) : 0.0f;
  v.w = i + 3 < n ? as_float(p[i + 3]) : 0.0f;
  return v;
}

template <class T>
__device__ inline void store_row_4(T* p, std::uint64_t i, std::uint64_t n, bool wide, float4 v) {
  if (wide) {
    if constexpr (sizeof(T) == 4) {
      *reinterpret_cast<float4*>(p + i) = v;
    } else {
      const auto both = [](float a, float b) {
        return std::uint32_t{round_to<T>(a).bits} | std::uint32_t{round_to<T>(b).bits} << 16;
      };
      *reinterpret_cast<uint2*>(p + i) = make_uint2(both(v.x, v.y), both(v.z, v.w));
    }
    return;
  }
  if (i < n) p[i] = round_to<T>(v.x);
  if (i + 1 < n) p[i + 1] = round_to<T>(v.y);
  if (i + 2 < n) p[i + 2] = round_to<T>(v.z);
  if (i + 3 < n) p[i + 3] = round_to<T>(v.w);
}

// The value as T keeps it.
template <class T>
__device__ inline float kept(float x) {
  return as_float(round_to<T>(x));
}
template <class T>
__device__ inline float4 kept(float4 v) {
  return make_float4(kept<T>(v.x), kept<T>(v.y), kept<T>(v.z), kept<T>(v.w));
}

// The scale of a q8a block whose largest magnitude has these bits; NaN where a value is not finite.
__device__ inline float q8a_scale(std::uint32_t top_bits) {
  return top_bits < 0x7f800000u ? __uint_as_float(top_bits) / 127.0f : __uint_as_float(0x7fffffffu);
}
__device__ inline int q8a_number(float x, float inverse) {
  return __float2int_rn(fmaxf(fminf(x * inverse, 127.0f), -127.0f));
}
__device__ inline std::uint32_t magnitude_bits(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// Four numbers of a q8a block, and of the whole block d and, in its first lane, both sums.
struct Q8aPart {
  std::uint32_t numbers;
  uint2 tail;
};
// Lanes 8 j .. 8 j + 7 of a warp hold a block of 32; the whole warp takes part.
__device__ inline Q8aPart quantize_q8a_4(float4 v) {
  std::uint32_t top = max(max(magnitude_bits(v.x), magnitude_bits(v.y)),
                          max(magnitude_bits(v.z), magnitude_bits(v.w)));
#pragma unroll
  for (int m = 1; m < 8; m *= 2) top = max(top, __shfl_xor_sync(0xffffffffu, top, m));
  const float d = q8a_scale(top), inverse = d > 0.0f ? 1.0f / d : 0.0f;
  const int q0 = q8a_number(v.x, inverse), q1 = q8a_number(v.y, inverse);
  const int q2 = q8a_number(v.z, inverse), q3 = q8a_number(v.w, inverse);
  int sum = (q0 + q1) + (q2 + q3);
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  const int other = __shfl_xor_sync(0xffffffffu, sum, 4);
  const std::uint32_t sums = (sum & 0xffff) | static_cast<std::uint32_t>(other) << 16;
  return {(q0 & 0xff) | (q1 & 0xff) << 8 | (q2 & 0xff) << 16 | static_cast<std::uint32_t>(q3) << 24,
          make_uint2(__float_as_uint(d), sums)};
}

// Stores elements [i, i + 4) of a q8a row of k values; lanes as above, those that are not active
// store nothing.
__device__ inline void store_q8a_4(std::uint8_t* row, std::uint64_t k, std::uint64_t i, float4 v,
                                   bool active) {
  const Q8aPart part = quantize_q8a_4(v);
  if (!active) return;
  *reinterpret_cast<std::uint32_t*>(row + i) = part.numbers;
  // Rows are 8-byte aligned.
  if (i % 32 == 0) *reinterpret_cast<uint2*>(row + k + i / 4) = part.tail;
}

// The same for a warp whose lane l holds element l of block b.
__device__ inline void store_q8a_1(std::uint8_t* row, std::uint64_t k, std::uint64_t b, float x) {
  const unsigned lane = threadIdx.x % 32;
  const float d = q8a_scale(__reduce_max_sync(0xffffffffu, magnitude_bits(x)));
  const int q = q8a_number(x, d > 0.0f ? 1.0f / d : 0.0f);
  int sum = q;
#pragma unroll
  for (int m = 1; m < 16; m *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, m);
  const int other = __shfl_xor_sync(0xffffffffu, sum, 16);
  row[32 * b + lane] = static_cast<std::uint8_t>(q);
  if (lane == 0) {
    const std::uint32_t sums = (sum & 0xffff) | static_cast<std::uint32_t>(other) << 16;
    *reinterpret_cast<uint2*>(row + k + 8 * b) = make_uint2(__float_as_uint(d), sums);
  }
}

// A warp stores a block of q8_0 (34 bytes), lane l the element l. The numbers of quant/q8_0.h.
__device__ inline void store_q8_0_1(std::uint8_t* block, float x) {
  const unsigned lane = threadIdx.x % 32;
  float top = x == x ? fabsf(x) : 0.0f;
#pragma unroll
  for (int m = 1; m < 32; m *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, m));
  const float d = top / 127.0f, inverse = d != 0.0f ? 1.0f / d : 0.0f;
  float t = x * inverse;
  t = t > -127.0f ? t : -127.0f;
  t = t < 127.0f ? t : 127.0f;
  block[2 + lane] = static_cast<std::uint8_t>(static_cast<int>(t < 0.0f ? t - 0.5f : t + 0.5f));
  if (lane == 0) {
    *reinterpret_cast<std::uint16_t*>(block) = static_cast<std::uint16_t>(float_to_half_bits(d));
  }
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_SHARED_CUDA_ELEMENTS_CUH_
