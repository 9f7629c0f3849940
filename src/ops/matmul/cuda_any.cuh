// The kernel for every format, width and alignment: a lane turns a piece of a weight row into f32
// and multiplies. A block computes 32 columns of up to 4 rows.
#ifndef ONEPASS_OPS_MATMUL_CUDA_ANY_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_ANY_CUH_

#include "ops/matmul/cuda_job.cuh"
#include "ops/shared/cuda.cuh"
#include "quant/affine.h"
#include "quant/blocks.h"
#include "quant/split.h"

namespace onepass::ops {

// Weights: get(...) gives values [piece * p, piece * p + piece) of a row; those at k and beyond are
// not used.
template <class Split>
struct AnySplit {
  static constexpr bool quantized = true;
  static constexpr std::uint32_t piece = 32;
  static __device__ std::uint64_t matrix_bytes(std::uint32_t n, std::uint32_t k) {
    return (n + 15) / 16 * quant::split_group_bytes<Split>(k);
  }
  static __device__ void get(const CudaArgs&, const void* matrix, std::uint32_t row,
                             std::uint32_t k, std::uint32_t p, float* out) {
    quant::split_block<Split>(matrix, k, row, p, out);
  }
};

template <class Block>
struct AnyBlock {
  static constexpr bool quantized = false;
  static constexpr std::uint32_t piece = Block::elements;
  static __device__ std::uint64_t matrix_bytes(std::uint32_t n, std::uint32_t k) {
    return std::uint64_t{n} * (k / piece) * sizeof(Block);
  }
  static __device__ void get(const CudaArgs&, const void* matrix, std::uint32_t row,
                             std::uint32_t k, std::uint32_t p, float* out) {
    quant::dequantize(static_cast<const Block*>(matrix)[std::uint64_t{row} * (k / piece) + p], out);
  }
};

struct F32Bits {
  using T = std::uint32_t;
  static __device__ float value(T bits) { return op_from_bits(bits); }
};
struct F16Bits {
  using T = std::uint16_t;
  static __device__ float value(T bits) { return op_f16_to_f32(bits); }
};
struct BF16Bits {
  using T = std::uint16_t;
  static __device__ float value(T bits) { return op_bf16_to_f32(bits); }
};

template <class Bits>
struct AnyFloat {
  static constexpr bool quantized = false;
  static constexpr std::uint32_t piece = 8;
  static __device__ std::uint64_t matrix_bytes(std::uint32_t n, std::uint32_t k) {
    return std::uint64_t{n} * k * sizeof(typename Bits::T);
  }
  static __device__ void get(const CudaArgs&, const void* matrix, std::uint32_t row,
                             std::uint32_t k, std::uint32_t p, float* out) {
    const auto* w = static_cast<const typename Bits::T*>(matrix) + std::uint64_t{row} * k;
#pragma unroll
    for (std::uint32_t i = 0; i < piece; ++i) {
      out[i] = piece * p + i < k ? Bits::value(w[piece * p + i]) : 0.0f;
    }
  }
};

// matmul_affine
template <class Bits>
struct AnyAffine {
  static constexpr bool quantized = false;
  static constexpr std::uint32_t piece = 32;
  static __device__ std::uint64_t matrix_bytes(std::uint32_t, std::uint32_t) { return 0; }
  static __device__ void get(const CudaArgs& args, const void* matrix, std::uint32_t row,
                             std::uint32_t k, std::uint32_t p, float* out) {
    const auto& a = args.params_as<MatmulAffineParams>();
    const std::uint64_t g = std::uint64_t{row} * (k / a.group_size) + 32 * p / a.group_size;
    const auto* stream = static_cast<const std::uint8_t*>(matrix) +
                         std::uint64_t{row} * (k / 8 * a.bits) + std::uint64_t{p} * 4 * a.bits;
    quant::affine_dequantize(static_cast<int>(a.bits), stream, 32,
                             Bits::value(args.ptr<const typename Bits::T>(matmul_scales)[g]),
                             Bits::value(args.ptr<const typename Bits::T>(matmul_biases)[g]), out);
  }
};

// The product of one row of x and a piece of weights; x is q8a or f32 at any alignment.
template <class W>
__device__ inline float any_dot(const unsigned char* x, std::uint32_t k, std::uint32_t p,
                                const float* w) {
  float sum = 0.0f;
  if constexpr (W::quantized) {
    static_assert(W::piece == 32);
    const auto* tail = reinterpret_cast<const std::uint16_t*>(x + k + 8 * std::uint64_t{p});
    for (std::uint32_t i = 0; i < 32; ++i) {
      sum = fmaf(static_cast<float>(static_cast<signed char>(x[32 * p + i])), w[i], sum);
    }
    return sum * op_from_bits(static_cast<std::uint32_t>(tail[0]) |
                              static_cast<std::uint32_t>(tail[1]) << 16);
  } else {
    const float* values = reinterpret_cast<const float*>(x) + W::piece * p;
    const std::uint32_t left = k - W::piece * p, count = left < W::piece ? left : W::piece;
    for (std::uint32_t i = 0; i < count; ++i) sum = fmaf(values[i], w[i], sum);
    return sum;
  }
}

// This warp's products of weight row `row` with `count` rows of x; the same sums in every lane.
template <class W>
__device__ inline void any_row(const CudaArgs& args, const void* matrix, std::uint32_t row,
                               std::uint32_t k, const unsigned char* x, std::uint64_t x_bytes,
                               std::uint32_t count, float (&y)[any_rows]) {
  const std::uint32_t pieces = (k + W::piece - 1) / W::piece;
  float acc[any_rows] = {};
  for (std::uint32_t p = threadIdx.x % 32; p < pieces; p += 32) {
    float w[W::piece];
    W::get(args, matrix, row, k, p, w);
#pragma unroll
    for (std::uint32_t r = 0; r < any_rows; ++r) {
      if (r < count) acc[r] += any_dot<W>(x + r * x_bytes, k, p, w);
    }
  }
  __syncwarp();
#pragma unroll
  for (std::uint32_t r = 0; r < any_rows; ++r) y[r] = warp_sum(acc[r]);
}

template <class W>
__device__ inline void any_matmul(const CudaArgs& args) {
  const Job job{args};
  const std::uint32_t m = job.m(), k = job.k();
  __shared__ float tile[2][any_rows][any_columns];
  const std::uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const bool gate = job.is_gate(), by_pair = job.by_pair();
  const std::uint32_t rows = by_pair ? 1 : any_rows;
  const std::uint64_t x_bytes = W::quantized ? k / 32 * 40 : std::uint64_t{k} * 4;
  std::uint32_t part = 0, unit = blockIdx.x;
  if (job.has_parts()) {
    while (part < 2 && unit >= (job.n(part) + any_columns - 1) / any_columns) {
      unit -= (job.n(part) + any_columns - 1) / any_columns;
      ++part;
    }
  }
  const std::uint32_t n = job.n(part), column = unit * any_columns;
  pdl_launch();
  pdl_wait();
  for (std::uint32_t first = blockIdx.y * rows; first < m; first += gridDim.y * rows) {
    const std::uint32_t count = m - first < rows ? m - first : rows;
    const auto* matrix = job.weights(part);
    std::uint32_t x_row = first;
    bool exists = true;
    if (by_pair) {
      const Pair pair = pair_of(args, first);
      exists = pair.expert != ~0u;
      x_row = pair.x_row;
      if (exists) matrix += pair.expert * W::matrix_bytes(n, k);
    }
    const unsigned char* x = job.x() + x_row * x_bytes;
    for (std::uint32_t c = warp; c < any_columns; c += any_threads / 32) {
      const std::uint32_t row = column + c < n ? column + c : n - 1;
      float y[any_rows] = {}, up[any_rows] = {};
      if (exists) any_row<W>(args, matrix, row, k, x, x_bytes, count, y);
      if (gate) any_row<W>(args, job.weights(1), row, k, x, x_bytes, count, up);
#pragma unroll
      for (std::uint32_t r = 0; r < any_rows; ++r) {
        if (lane == r) {
          tile[0][r][c] = y[r];
          tile[1][r][c] = up[r];
        }
      }
    }
    __syncthreads();
    const std::uint32_t r = warp, c = column + lane;  // of the value this thread stores
    if (r < count) {
      const std::uint64_t at = (std::uint64_t{first} + r) * n + c;
      float y = tile[0][r][lane];
      if (gate) y = activate(job.activation(), y) * tile[1][r][lane];
      if (job.has(form_quantized)) {
        store_q8a_1(job.quantized_out() + (std::uint64_t{first} + r) * (n / 32 * 40), n, unit, y);
      } else if (c < n) {
        if (const float* bias = job.bias(part)) y += bias[c];
        if (const float* residual = job.residual()) y += residual[at];
        job.out(part)[at] = y;
      }
    }
    __syncthreads();
  }
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_MATMUL_CUDA_ANY_CUH_
