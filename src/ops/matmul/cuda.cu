#include <cuda_fp16.h>

#include "backends/cuda/args.h"
#include "ops/matmul/params.h"
#include "ops/shared/cuda.cuh"
#include "quant/q8_0.h"

// A warp computes out[m, n] for one n and up to tile_m rows of x, so that a weight is read once
// for all of them. Which lane adds which products in which order does not depend on m or on how
// the operands are aligned.
namespace onepass::ops {
namespace {

constexpr int tile_m = 4;

// One lane's eight weights of a q8_0 block and the block's scale.
struct Eight {
  std::uint32_t lo, hi;  // q[0..3], q[4..7]
  float d;
};

__device__ inline std::uint32_t load_u16(const unsigned char* p) {
  return __ldg(reinterpret_cast<const unsigned short*>(p));
}
__device__ inline std::uint32_t load_u32(const unsigned char* p) {
  return __ldg(reinterpret_cast<const std::uint32_t*>(p));
}

// Weights [8 * quarter, 8 * quarter + 8) of block b. A block has 34 bytes, so its weights start at
// a multiple of 4 only in odd blocks. words: row is 4-byte aligned and has an even number of
// blocks; then the even blocks' weights are shifted out of three aligned words, the last of which
// may reach into the odd block after them.
template <bool Words>
__device__ inline Eight load_eight(const unsigned char* row, std::uint32_t b,
                                   std::uint32_t quarter) {
  const unsigned char* block = row + std::uint64_t{b} * sizeof(quant::BlockQ8_0);
  Eight w;
  w.d = __half2float(__ushort_as_half(static_cast<unsigned short>(load_u16(block))));
  if constexpr (Words) {
    const bool odd = b % 2 != 0;
    const unsigned char* p = block - (odd ? 2 : 0) + 8 * quarter;
    const std::uint32_t w0 = odd ? 0u : load_u32(p);
    const std::uint32_t w1 = load_u32(p + 4), w2 = load_u32(p + 8);
    const std::uint32_t shift = odd ? 32u : 16u;
    w.lo = __funnelshift_rc(w0, w1, shift);
    w.hi = __funnelshift_rc(w1, w2, shift);
  } else {
    const unsigned char* p = block + 2 + 8 * quarter;
    w.lo = load_u16(p) | load_u16(p + 2) << 16;
    w.hi = load_u16(p + 4) | load_u16(p + 6) << 16;
  }
  return w;
}

__device__ inline float byte_of(std::uint32_t word, int i) {
  return static_cast<float>(static_cast<signed char>(word >> (8 * i)));
}

__device__ inline float dot_eight(const Eight& w, float4 a, float4 b) {
  float s = byte_of(w.lo, 0) * a.x;
  s = fmaf(byte_of(w.lo, 1), a.y, s);
  s = fmaf(byte_of(w.lo, 2), a.z, s);
  s = fmaf(byte_of(w.lo, 3), a.w, s);
  s = fmaf(byte_of(w.hi, 0), b.x, s);
  s = fmaf(byte_of(w.hi, 1), b.y, s);
  s = fmaf(byte_of(w.hi, 2), b.z, s);
  return fmaf(byte_of(w.hi, 3), b.w, s);
}

// acc[r] += this lane's part of the products of x[r] and the weight row. Ahead: steps whose
// weights are loaded before the first is used.
template <int M, bool Words>
__device__ inline void dot_q8_0(const float* const (&x)[M], bool wide, const unsigned char* row,
                                std::uint32_t k, float (&acc)[M]) {
  constexpr std::uint32_t ahead = M == 1 ? 4 : 1;
  const std::uint32_t lane = threadIdx.x % 32, quarter = lane % 4, blocks = k / 32;
  for (std::uint32_t begin = 0; begin < blocks; begin += 8 * ahead) {
    Eight w[ahead];
#pragma unroll
    for (std::uint32_t s = 0; s < ahead; ++s) {
      const std::uint32_t b = begin + 8 * s + lane / 4;
      w[s] = b < blocks ? load_eight<Words>(row, b, quarter) : Eight{0u, 0u, 0.0f};
    }
#pragma unroll
    for (std::uint32_t s = 0; s < ahead; ++s) {
      const std::uint32_t b = begin + 8 * s + lane / 4;
      if (b < blocks) {
        const std::uint64_t i = std::uint64_t{b} * 32 + 8 * quarter;
#pragma unroll
        for (int r = 0; r < M; ++r) {
          const float4 lo = load_4(x[r], i, k, wide), hi = load_4(x[r], i + 4, k, wide);
          acc[r] = fmaf(w[s].d, dot_eight(w[s], lo, hi), acc[r]);
        }
      }
    }
  }
}

template <int M>
__device__ inline void dot_f32(const float* const (&x)[M], bool wide, const float* row,
                               std::uint32_t k, float (&acc)[M]) {
  constexpr std::uint32_t ahead = M == 1 ? 4 : 1;
  for (std::uint64_t begin = 4 * (threadIdx.x % 32); begin < k; begin += 128 * ahead) {
    float4 w[ahead];
#pragma unroll
    for (std::uint32_t s = 0; s < ahead; ++s) {
      const std::uint64_t i = begin + 128 * s;
      w[s] = i < k ? load_4(row, i, k, wide) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
#pragma unroll
    for (std::uint32_t s = 0; s < ahead; ++s) {
      const std::uint64_t i = begin + 128 * s;
      if (i < k) {
#pragma unroll
        for (int r = 0; r < M; ++r) {
          const float4 v = load_4(x[r], i, k, wide);
          acc[r] = fmaf(w[s].x, v.x, acc[r]);
          acc[r] = fmaf(w[s].y, v.y, acc[r]);
          acc[r] = fmaf(w[s].z, v.z, acc[r]);
          acc[r] = fmaf(w[s].w, v.w, acc[r]);
        }
      }
    }
  }
}

struct Q8_0 {
  template <int M>
  __device__ static void dot(const CudaArgs& args, const float* const (&x)[M], std::uint64_t n,
                             std::uint32_t k, float (&acc)[M]) {
    const std::uint64_t row_bytes = std::uint64_t{k} / 32 * sizeof(quant::BlockQ8_0);
    const unsigned char* base = args.ptr<const unsigned char>(1);
    const bool wide = is_aligned_16(args.views[0]);  // k is a multiple of 32
    if (reinterpret_cast<std::uintptr_t>(base) % 4 == 0 && k % 64 == 0) {
      dot_q8_0<M, true>(x, wide, base + n * row_bytes, k, acc);
    } else {
      dot_q8_0<M, false>(x, wide, base + n * row_bytes, k, acc);
    }
  }
};

struct F32 {
  template <int M>
  __device__ static void dot(const CudaArgs& args, const float* const (&x)[M], std::uint64_t n,
                             std::uint32_t k, float (&acc)[M]) {
    const bool wide = k % 4 == 0 && is_aligned_16(args.views[0]) && is_aligned_16(args.views[1]);
    dot_f32<M>(x, wide, args.ptr<const float>(1) + n * k, k, acc);
  }
};

// Rows [m, m + M) of x and column n; rows from p.m on are computed as the last one and not stored.
template <class W, int M>
__device__ inline void tile(const CudaArgs& args, const MatmulParams& p, std::uint64_t m,
                            std::uint64_t n) {
  const float* x[M];
  float acc[M];
#pragma unroll
  for (int r = 0; r < M; ++r) {
    const std::uint64_t row = m + r < p.m ? m + r : p.m - 1;
    x[r] = args.ptr<const float>(0) + row * p.k;
    acc[r] = 0.0f;
  }
  W::template dot<M>(args, x, n, p.k, acc);
#pragma unroll
  for (int r = 0; r < M; ++r) {
    const float sum = warp_sum(acc[r]);
    if (threadIdx.x % 32 == 0 && m + r < p.m) args.ptr<float>(2)[(m + r) * p.n + n] = sum;
  }
}

template <class W>
__device__ void matmul(const CudaArgs& args) {
  const MatmulParams p = args.params_as<MatmulParams>();
  const std::uint32_t warps = blockDim.x / 32;
  const std::uint64_t first_n = std::uint64_t{blockIdx.x} * warps + threadIdx.x / 32;
  for (std::uint64_t n = first_n; n < p.n; n += std::uint64_t{gridDim.x} * warps) {
    if (p.m == 1) {
      tile<W, 1>(args, p, 0, n);
      continue;
    }
    for (std::uint64_t m = std::uint64_t{blockIdx.y} * tile_m; m < p.m;
         m += std::uint64_t{gridDim.y} * tile_m) {
      tile<W, tile_m>(args, p, m, n);
    }
  }
}

}  // namespace
}  // namespace onepass::ops

extern "C" __global__ void __launch_bounds__(128)
    matmul_f32_f32(const __grid_constant__ onepass::CudaArgs args) {
  onepass::ops::matmul<onepass::ops::F32>(args);
}

extern "C" __global__ void __launch_bounds__(128)
    matmul_q8_0_f32(const __grid_constant__ onepass::CudaArgs args) {
  onepass::ops::matmul<onepass::ops::Q8_0>(args);
}
