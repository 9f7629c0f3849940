// Rows of a cache.
#pragma once

#include "ops/shared/simd16_rows.h"

namespace onepass::ops::OP_ISA {

OP_INLINE void store_cache_row(const float* x, std::size_t n, float* y) {
  std::memcpy(y, x, n * sizeof(float));
}
OP_INLINE void store_cache_row(const float* x, std::size_t n, F16* y) {
  for (std::size_t i = 0; i < n; i += 16) {
    const std::size_t left = lanes_left(i, n);
    store_some(y + i, load_some(x + i, left), left);
  }
}
OP_INLINE void store_cache_row(const float* x, std::size_t n, quant::BlockQ8_0* y) {
  for (std::size_t i = 0; i < n; i += 32) quant::quantize(x + i, y[i / 32]);
}

// A cache of one type at `data`; row as CachePlaces counts them.
OP_INLINE void store_cache_row(DType type, const float* x, std::size_t head_dim, std::byte* data,
                               std::uint64_t row) {
  std::byte* y = data + row * cache_row_bytes(type, head_dim);
  if (type == DType::f16) {
    store_cache_row(x, head_dim, reinterpret_cast<F16*>(y));
  } else if (type == DType::f32) {
    store_cache_row(x, head_dim, reinterpret_cast<float*>(y));
  } else {
    store_cache_row(x, head_dim, reinterpret_cast<quant::BlockQ8_0*>(y));
  }
}

}  // namespace onepass::ops::OP_ISA
