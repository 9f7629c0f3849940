// Single values of the block formats: the bits of dequantize() of src/quant.
#ifndef ONEPASS_OPS_SHARED_CUDA_VALUES_CUH_
#define ONEPASS_OPS_SHARED_CUDA_VALUES_CUH_

#include "ops/shared/cuda_elements.cuh"
#include "quant/blocks.h"

namespace onepass::ops {

// Element j of 32 in the order of q4_0: 16 low halves, then 16 high ones.
__device__ inline int nibble_of(const std::uint8_t* qs, int j) {
  return qs[j % 16] >> (j < 16 ? 0 : 4) & 15;
}
__device__ inline int fifth_bit(const std::uint8_t* qh, int j) { return qh[j / 8] >> (j % 8) & 1; }

__device__ inline float value_of(const quant::BlockQ4_0& b, int e) {
  return static_cast<float>(nibble_of(b.qs, e) - 8) * half_bits_to_float(b.d);
}
__device__ inline float value_of(const quant::BlockQ4_1& b, int e) {
  return static_cast<float>(nibble_of(b.qs, e)) * half_bits_to_float(b.d) + half_bits_to_float(b.m);
}
__device__ inline float value_of(const quant::BlockQ5_0& b, int e) {
  const int q = nibble_of(b.qs, e) | fifth_bit(b.qh, e) << 4;
  return static_cast<float>(q - 16) * half_bits_to_float(b.d);
}
__device__ inline float value_of(const quant::BlockQ5_1& b, int e) {
  const int q = nibble_of(b.qs, e) | fifth_bit(b.qh, e) << 4;
  return static_cast<float>(q) * half_bits_to_float(b.d) + half_bits_to_float(b.m);
}
__device__ inline float value_of(const quant::BlockQ8_0& b, int e) {
  return static_cast<float>(b.qs[e]) * half_bits_to_float(b.d);
}
__device__ inline float value_of(const quant::BlockIQ4_NL& b, int e) {
  return half_bits_to_float(b.d) * static_cast<float>(quant::iq4_value(nibble_of(b.qs, e)));
}
__device__ inline float value_of(const quant::BlockIQ4_XS& b, int e) {
  const float scale = half_bits_to_float(b.d) * static_cast<float>(quant::scale_of(b, e / 32));
  return scale * static_cast<float>(quant::iq4_value(nibble_of(b.qs + 16 * (e / 32), e % 32)));
}
__device__ inline float value_of(const quant::BlockQ2_K& b, int e) {
  const int j = e / 16;
  const float scale = half_bits_to_float(b.d) * static_cast<float>(b.scales[j] & 15);
  const float offset = half_bits_to_float(b.dmin) * static_cast<float>(b.scales[j] >> 4);
  const int q = b.qs[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32)) & 3;
  return scale * static_cast<float>(q) - offset;
}
__device__ inline float value_of(const quant::BlockQ3_K& b, int e) {
  const float scale = half_bits_to_float(b.d) * static_cast<float>(quant::scale_of(b, e / 16));
  const int low = b.qs[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32)) & 3;
  return scale * static_cast<float>(low + 4 * (b.hmask[e % 32] >> (e / 32) & 1) - 4);
}
// q4_k and q5_k.
template <class Block>
__device__ inline float value_with_minimum(const Block& b, int e) {
  const float scale =
      half_bits_to_float(b.d) * static_cast<float>(quant::scale_of(b.scales, e / 32));
  const float minimum =
      half_bits_to_float(b.dmin) * static_cast<float>(quant::minimum_of(b.scales, e / 32));
  return scale * static_cast<float>(quant::number_of(b, e)) - minimum;
}
__device__ inline float value_of(const quant::BlockQ4_K& b, int e) {
  return value_with_minimum(b, e);
}
__device__ inline float value_of(const quant::BlockQ5_K& b, int e) {
  return value_with_minimum(b, e);
}
__device__ inline float value_of(const quant::BlockQ6_K& b, int e) {
  const float scale = half_bits_to_float(b.d) * static_cast<float>(b.scales[e / 16]);
  return scale * static_cast<float>(quant::number_of(b, e) - 32);
}
template <class Block>
requires requires { typename Block::Grid; }
__device__ inline float value_of(const Block& b, int e) { return quant::value_of_grid(b, e); }

// Four elements of a row from i, a multiple of 4.
template <class W>
__device__ inline float4 values_4(const W* row, std::uint64_t i, std::uint64_t n, bool wide) {
  if constexpr (requires { W::elements; }) {
    const W& b = row[i / W::elements];
    const int e = static_cast<int>(i % W::elements);
    return make_float4(value_of(b, e), value_of(b, e + 1), value_of(b, e + 2), value_of(b, e + 3));
  } else {
    return load_row_4(row, i, n, wide);
  }
}
template <class W>
__device__ inline const W* row_at(const W* matrix, std::uint64_t r, std::uint64_t cols) {
  if constexpr (requires { W::elements; }) {
    return matrix + r * (cols / W::elements);
  } else {
    return matrix + r * cols;
  }
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_SHARED_CUDA_VALUES_CUH_
