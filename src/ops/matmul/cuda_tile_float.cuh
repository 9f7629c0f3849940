// Products of many rows of f32 with f32, f16 or bf16 weights on the tensor cores. Their operands
// have 11 bits: x is cut in two parts of 11, f32 weights too, and the product of both small parts
// is left out; 16-bit weights are exact. What is lost is below 2^-21 of each product.
//
// Blocks and warps as in cuda_tile.cuh, in steps of 32 values of k. x and weights start at
// multiples of 16 bytes, and so do their rows.
#ifndef ONEPASS_OPS_MATMUL_CUDA_TILE_FLOAT_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_TILE_FLOAT_CUH_

#include "ops/matmul/cuda_forms.cuh"
#include "ops/matmul/cuda_tile_out.cuh"

namespace onepass::ops {

// The upper 11 bits of a number, and the rest.
struct TwoParts {
  std::uint32_t high, low;
};
__device__ __forceinline__ TwoParts cut(float x) {
  const std::uint32_t high = __float_as_uint(x) & 0xffffe000u;
  return {high, __float_as_uint(x - __uint_as_float(high))};
}

template <class F, int WarpsM, int WarpsN>
struct FloatTile : TileOut<WarpsM, WarpsN> {
  using Out = TileOut<WarpsM, WarpsN>;
  using Out::first_m, Out::k, Out::m, Out::rows_m, Out::rows_n, Out::threads;
  static constexpr std::uint32_t step_k = 32, stages = 3;
  static constexpr std::uint32_t size = 16 / F::piece;  // bytes of a weight
  // Bytes of a row with padding, so that the rows of a load fall into different banks.
  static constexpr std::uint32_t x_stride = step_k * 4 + 32;
  static constexpr std::uint32_t w_stride = step_k * size + (size == 4 ? 32 : 16);
  static constexpr std::uint32_t w_at = rows_m * x_stride;
  static constexpr std::uint32_t stage_bytes = w_at + rows_n * w_stride;
  static_assert(stages * stage_bytes == matmul_float_tile_bytes(WarpsM, WarpsN, size));

  unsigned char* shared;

  // 16 bytes each; zeros beyond the end of a row and of the rows.
  __device__ __forceinline__ void copy_weights(std::uint32_t step) const {
    unsigned char* stage = shared + step % stages * stage_bytes + w_at;
    constexpr std::uint32_t chunks = step_k * size / 16;
#pragma unroll
    for (std::uint32_t c = threadIdx.x; c < rows_n * chunks; c += threads) {
      const std::uint32_t j = c / chunks, at = step * step_k + c % chunks * F::piece;
      const TileRow w = Out::weight_row(j);
      const bool inside = w.exists && at < k;
      const std::uint8_t* from = w.matrix;
      if (inside) from += (std::uint64_t{w.row} * k + at) * size;
      async_copy<16>(stage + j * w_stride + c % chunks * 16, from, inside ? 16 : 0);
    }
  }
  __device__ __forceinline__ void copy_x(const unsigned char* x, std::uint32_t step) const {
    unsigned char* stage = shared + step % stages * stage_bytes;
    constexpr std::uint32_t chunks = step_k / 4;
#pragma unroll
    for (std::uint32_t c = threadIdx.x; c < rows_m * chunks; c += threads) {
      const std::uint32_t r = c / chunks, at = step * step_k + c % chunks * 4;
      const bool inside = first_m + r < m && at < k;
      const unsigned char* from = x;
      if (inside) from += ((std::uint64_t{first_m} + r) * k + at) * 4;
      async_copy<16>(stage + r * x_stride + c % chunks * 16, from, inside ? 16 : 0);
    }
  }

  // Weights 2 v and 2 v + 1 of the eight at `at` of a row.
  static __device__ __forceinline__ float2 load_pair(const unsigned char* row, std::uint32_t at,
                                                     std::uint32_t v) {
    if constexpr (size == 4) {
      return *reinterpret_cast<const float2*>(row + 4 * at + 8 * v);
    } else {
      const std::uint32_t w = *reinterpret_cast<const std::uint32_t*>(row + 2 * at + 4 * v);
      return make_float2(F::to_float(w & 0xffffu), F::to_float(w >> 16));
    }
  }

  // The instruction's values t and t + 4 of eight are 2 t and 2 t + 1 here, on both sides.
  __device__ __forceinline__ void compute(std::uint32_t step, float (&acc)[2][8][4]) const {
    const unsigned char* stage = shared + step % stages * stage_bytes;
    const std::uint32_t lane = threadIdx.x % 32, v = lane % 4;
    const unsigned char* x = stage + (32 * Out::warp_m() + lane / 4) * x_stride;
    const unsigned char* w = stage + w_at + (64 * Out::warp_n() + lane / 4) * w_stride;
#pragma unroll
    for (std::uint32_t at = 0; at < step_k; at += 8) {
      std::uint32_t high[2][4], low[2][4];
#pragma unroll
      for (std::uint32_t i = 0; i < 2; ++i) {
#pragma unroll
        for (std::uint32_t h = 0; h < 2; ++h) {
          const float2 pair =
              *reinterpret_cast<const float2*>(x + (16 * i + 8 * h) * x_stride + 4 * at + 8 * v);
          const TwoParts a = cut(pair.x), b = cut(pair.y);
          high[i][h] = a.high, high[i][2 + h] = b.high;
          low[i][h] = a.low, low[i][2 + h] = b.low;
        }
      }
#pragma unroll
      for (std::uint32_t t = 0; t < 8; ++t) {
        const float2 pair = load_pair(w + 8 * t * w_stride, at, v);
        if constexpr (size == 4) {
          const TwoParts a = cut(pair.x), b = cut(pair.y);
          const std::uint32_t w_high[2] = {a.high, b.high}, w_low[2] = {a.low, b.low};
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            mma_tf32_k8(acc[i][t], low[i], w_high);
            mma_tf32_k8(acc[i][t], high[i], w_low);
            mma_tf32_k8(acc[i][t], high[i], w_high);
          }
        } else {
          const std::uint32_t b[2] = {__float_as_uint(pair.x), __float_as_uint(pair.y)};
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            mma_tf32_k8(acc[i][t], low[i], b);
            mma_tf32_k8(acc[i][t], high[i], b);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void run(const CudaArgs& args) const {
    const unsigned char* x = args.ptr<const unsigned char>(0);
    const std::uint32_t steps = (k + step_k - 1) / step_k;
    pdl_launch();
    copy_weights(0);
    copy_weights(1);
    pdl_wait();
    copy_x(x, 0);
    async_commit();
    copy_x(x, 1);
    async_commit();
    float acc[2][8][4] = {};
    for (std::uint32_t step = 0; step < steps; ++step) {
      async_wait<1>();
      __syncthreads();
      if (step + 2 < steps) {
        copy_weights(step + 2);
        copy_x(x, step + 2);
      }
      async_commit();
      compute(step, acc);
    }
    Out::store(acc);
  }
};

template <class F, int WarpsM, int WarpsN>
__device__ __forceinline__ void float_tile_matmul(const CudaArgs& args) {
  FloatTile<F, WarpsM, WarpsN>{TileOut<WarpsM, WarpsN>::at_block(args), dynamic_shared()}.run(args);
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_MATMUL_CUDA_TILE_FLOAT_CUH_
