// What a block computes and where the products go, whatever the weights. A warp's products are
// acc[2][8][4]: 32 rows of x as two times 16, 64 weight rows as eight times 8, each as the tensor
// cores give them: rows lane / 4 and 8 further, columns 2 (lane % 4) and the next.
#ifndef ONEPASS_OPS_MATMUL_CUDA_TILE_OUT_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_TILE_OUT_CUH_

#include "ops/matmul/cuda_job.cuh"

namespace onepass::ops {

// Where in the weights of a block a row of its tile is.
struct TileRow {
  const std::uint8_t* matrix;
  std::uint32_t row;
  bool exists;
};

template <int WarpsM, int WarpsN>
struct TileOut {
  static constexpr std::uint32_t rows_m = 32 * WarpsM, rows_n = 64 * WarpsN;
  static constexpr std::uint32_t threads = 32 * WarpsM * WarpsN;

  const Job job;
  std::uint32_t part, first_n, first_m, k, m;  // first_n: of the part, or of gate and up

  // For blockIdx.
  static __device__ __forceinline__ TileOut at_block(const CudaArgs& args) {
    const Job job{args};
    const std::uint32_t width = job.is_gate() ? rows_n / 2 : rows_n;
    std::uint32_t part = 0, unit = blockIdx.x;
    if (job.has_parts()) {
      while (part < 2 && unit >= (job.n(part) + width - 1) / width) {
        unit -= (job.n(part) + width - 1) / width;
        ++part;
      }
    }
    return {job, part, unit * width, blockIdx.y * rows_m, job.k(), job.m()};
  }
  static __device__ __forceinline__ std::uint32_t warp_m() { return threadIdx.x / 32 % WarpsM; }
  static __device__ __forceinline__ std::uint32_t warp_n() { return threadIdx.x / 32 / WarpsM; }

  // Row j of the tile's weights.
  __device__ __forceinline__ TileRow weight_row(std::uint32_t j) const {
    if (job.is_gate()) {
      const std::uint32_t row = first_n + j / 64 * 32 + j % 32;
      return {job.weights(j / 32 % 2), row, row < job.n()};
    }
    return {job.weights(part), first_n + j, first_n + j < job.n(part)};
  }

  __device__ __forceinline__ void store(float (&acc)[2][8][4]) const {
    const std::uint32_t lane = threadIdx.x % 32, row_m = first_m + warp_m() * 32;
    const std::uint32_t n = job.n(part);
#pragma unroll
    for (std::uint32_t i = 0; i < 2; ++i) {
#pragma unroll
      for (std::uint32_t h = 0; h < 2; ++h) {
        const std::uint32_t row = row_m + 16 * i + 8 * h + lane / 4;
        if (job.is_gate()) {
          const std::uint32_t first = first_n + 32 * warp_n();
          float y[4][2];
#pragma unroll
          for (int t = 0; t < 4; ++t) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
              y[t][j] = activate(job.activation(), acc[i][t][2 * h + j]) * acc[i][t + 4][2 * h + j];
            }
          }
          if (job.has(form_quantized)) {
            store_q8a(y, row, first);
          } else {
#pragma unroll
            for (std::uint32_t t = 0; t < 4; ++t) {
              const std::uint32_t column = first + 8 * t + lane % 4 * 2;
              float* out = job.out(0) + std::uint64_t{row} * n + column;
              if (row < m && column < n) out[0] = y[t][0];
              if (row < m && column + 1 < n) out[1] = y[t][1];
            }
          }
          continue;
        }
        const float* bias = job.bias(part);
        const float* residual = job.residual();
#pragma unroll
        for (std::uint32_t t = 0; t < 8; ++t) {
#pragma unroll
          for (std::uint32_t j = 0; j < 2; ++j) {
            const std::uint32_t column = first_n + 64 * warp_n() + 8 * t + lane % 4 * 2 + j;
            if (row >= m || column >= n) continue;
            const std::uint64_t at = std::uint64_t{row} * n + column;
            float y = acc[i][t][2 * h + j];
            if (bias) y += __ldcg(bias + column);
            if (residual) y += __ldcg(residual + at);
            job.out(part)[at] = y;
          }
        }
      }
    }
  }

  // 32 columns of a row, 8 in each of four neighbouring lanes: y[t][j] is column 8 t + 2 (lane % 4)
  // + j. All lanes of the warp take part.
  __device__ __forceinline__ void store_q8a(const float (&y)[4][2], std::uint32_t row,
                                            std::uint32_t first) const {
    std::uint32_t top = 0;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      top = max(top, max(magnitude_bits(y[t][0]), magnitude_bits(y[t][1])));
    }
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
      top = max(top, __shfl_xor_sync(0xffffffffu, top, offset));
    }
    const float d = q8a_scale(top), inverse = d > 0.0f ? 1.0f / d : 0.0f;
    int q[4][2], sums[2];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        q[t][j] = q8a_number(y[t][j], inverse);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sums[i] = q[2 * i][0] + q[2 * i][1] + q[2 * i + 1][0] + q[2 * i + 1][1];
#pragma unroll
      for (int offset = 1; offset < 4; offset *= 2) {
        sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], offset);
      }
    }
    const std::uint32_t n = job.n(), lane = threadIdx.x % 4;
    if (row >= m || first >= n) return;
    unsigned char* out = job.quantized_out() + std::uint64_t{row} * (n / 32 * 40);
#pragma unroll
    for (std::uint32_t t = 0; t < 4; ++t) {
      *reinterpret_cast<std::uint16_t*>(out + first + 8 * t + 2 * lane) =
          static_cast<std::uint16_t>((q[t][0] & 255) | (q[t][1] & 255) << 8);
    }
    const std::uint32_t bits = __float_as_uint(d);
    const std::uint32_t half = lane == 0   ? bits
                               : lane == 1 ? bits >> 16
                               : lane == 2 ? static_cast<std::uint32_t>(sums[0])
                                           : static_cast<std::uint32_t>(sums[1]);
    *reinterpret_cast<std::uint16_t*>(out + n + first / 32 * 8 + 2 * lane) =
        static_cast<std::uint16_t>(half);
  }
};

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_MATMUL_CUDA_TILE_OUT_CUH_
