// Products of one row of x with every weight row of a packed format. S warps compute R weight rows
// (a set: neighbours, or R / 2 columns of a gate and of its up), a block as many sets as it has
// warps for, once. A lane has U pieces of each of its rows on their way, the first of them before
// the wait, and reads x from L1.
//
// The order of every sum depends on k, R, S and U only.
#ifndef ONEPASS_OPS_MATMUL_CUDA_LINE_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_LINE_CUH_

#include "ops/matmul/cuda_forms.cuh"
#include "ops/matmul/cuda_job.cuh"

namespace onepass::ops {

// Neighbouring rows of one group of each of `Matrices` matrices.
template <class F, int R, int Matrices>
struct Lines {
  const std::uint8_t* group[Matrices];
  std::uint32_t r, k;

  __device__ __forceinline__ void load(typename F::Held (&held)[R], std::uint32_t p) const {
    constexpr int rows = R / Matrices;
#pragma unroll
    for (int j = 0; j < R; ++j) {
      F::load_at(held[j], group[j / rows], r + static_cast<std::uint32_t>(j % rows), k, p);
    }
  }
};

// What this lane has of the products of `lines`; `pieces` of each from `first` on in steps of
// `Stride`. Staged: x is in shared memory. With `more`, `held` then holds the start of `next`.
template <class F, int R, int U, int Stride, bool Staged, class L>
__device__ __forceinline__ void multiply_lines(const L& lines, const unsigned char* x,
                                               std::uint32_t first, std::uint32_t pieces,
                                               typename F::Held (&held)[U][R], float (&acc)[R],
                                               const L& next, bool more) {
  // x of several pieces at a time, so that the first reads of it wait together.
  constexpr int room = Staged ? 1 : R * U <= 4 ? F::x_batch : F::x_batch / R;
  constexpr int batch = room < 1 ? 1 : room < U ? room : U;
  static_assert(U % batch == 0);
  for (std::uint32_t begin = first; begin < pieces; begin += U * Stride) {
#pragma unroll
    for (int b = 0; b < U; b += batch) {
      typename F::X xs[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const std::uint32_t p = begin + static_cast<std::uint32_t>(b + i) * Stride;
        const std::uint32_t there = p < pieces ? p : begin;
        xs[i] = Staged ? F::load_x(x, there, lines.k) : F::read_x(x, there, lines.k);
      }
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const std::uint32_t p = begin + static_cast<std::uint32_t>(b + i) * Stride;
        if (p < pieces) {
#pragma unroll
          for (int j = 0; j < R; ++j) F::dot(held[b + i][j], xs[i], acc[j]);
          if (p + U * Stride < pieces) {
            lines.load(held[b + i], p + U * Stride);
          } else if (more) {
            next.load(held[b + i], first + static_cast<std::uint32_t>(b + i) * Stride);
          }
        }
      }
    }
  }
}

// The sum over the warp of acc[lane / (32 / R)].
template <int R>
__device__ __forceinline__ float line_total(float (&acc)[R], std::uint32_t lane) {
  int offset = 16;
#pragma unroll
  for (int half = R / 2; half > 0; half /= 2, offset /= 2) {
    const bool upper = (lane & static_cast<std::uint32_t>(offset)) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float sent = upper ? acc[i] : acc[i + half];
      const float kept = upper ? acc[i + half] : acc[i];
      acc[i] = kept + __shfl_xor_sync(0xffffffffu, sent, offset);
    }
  }
#pragma unroll
  for (; offset > 0; offset /= 2) acc[0] += __shfl_xor_sync(0xffffffffu, acc[0], offset);
  return acc[0];
}

// Rows first .. first + R - 1 of a matrix; exists: the first of them does.
struct Line {
  std::uint32_t part, first;
  bool exists;
};
template <std::uint32_t R>
__device__ __forceinline__ Line line_at(const Job& job, std::uint32_t i) {
  const std::uint32_t a = (job.n() + R - 1) / R;
  if (!job.has_parts() || i < a) return {0, R * i, i < a};
  const std::uint32_t b = (job.n(1) + R - 1) / R, c = (job.n(2) + R - 1) / R;
  i -= a;
  return i < b ? Line{1, R * i, true} : Line{2, R * (i - b), i - b < c};
}

// Everything but gates and experts.
template <class F, int R, int S, int U>
__device__ __forceinline__ void line_matmul(const CudaArgs& args) {
  constexpr std::uint32_t stride = 32 * S;
  const Job job{args};
  const std::uint32_t k = job.k(), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::uint32_t sets = blockDim.x / stride, begin = blockIdx.x * sets;
  const Line line = line_at<R>(job, begin + warp / S);
  const std::uint32_t pieces = line.exists ? k / F::piece : 0, first = warp % S * 32 + lane;
  typename F::Held held[U][R];
  Lines<F, R, 1> lines{{nullptr}, line.first % 16, k};

  pdl_launch();
  if (line.exists) {
    lines.group[0] = group_of<typename F::Split>(job.weights(line.part), line.first, k);
  }
#pragma unroll
  for (int i = 0; i < U; ++i) {
    if (first + i * stride < pieces) lines.load(held[i], first + i * stride);
  }
  pdl_wait();

  // The row that this thread stores, and what is added to it.
  constexpr std::uint32_t share = 32 / R;
  const std::uint32_t thread = threadIdx.x;
  const Line own = S == 1 ? line : line_at<R>(job, begin + thread / R);
  const std::uint32_t row = own.first + (S == 1 ? lane / share : thread % R);
  const bool stores =
      (S == 1 ? lane % share == 0 : thread < sets * R) && own.exists && row < job.n(own.part);
  float added = 0.0f;
  if (stores) {
    if (const float* bias = job.bias(own.part)) added = __ldcg(bias + row);
    if (const float* residual = job.residual()) added += __ldcg(residual + row);
  }

  float acc[R] = {};
  multiply_lines<F, R, U, static_cast<int>(stride), false>(lines, job.x(), first, pieces, held, acc,
                                                           lines, false);
  float sum = line_total<R>(acc, lane);
  if constexpr (S > 1) {
    __shared__ float sums[8 * R];
    if (lane % share == 0) sums[warp * R + lane / share] = sum;
    __syncthreads();
    if (stores) {
      const std::uint32_t at = thread / R * (S * R) + thread % R;
      sum = sums[at];
#pragma unroll
      for (std::uint32_t w = 1; w < S; ++w) sum += sums[at + w * R];
    }
  }
  if (stores) job.out(own.part)[row] = sum + added;
}

// Gates. With a quantized output a block has 32 columns.
template <class F, int R, int U>
__device__ __forceinline__ void line_gate(const CudaArgs& args) {
  constexpr std::uint32_t columns = R / 2, share = 32 / R;
  const Job job{args};
  const std::uint32_t k = job.k(), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::uint32_t first = (blockIdx.x * (blockDim.x / 32) + warp) * columns;
  const std::uint32_t pieces = first < job.n() ? k / F::piece : 0;
  typename F::Held held[U][R];
  Lines<F, R, 2> lines{{nullptr, nullptr}, first % 16, k};

  pdl_launch();
  if (pieces != 0) {
    lines.group[0] = group_of<typename F::Split>(job.weights(0), first, k);
    lines.group[1] = group_of<typename F::Split>(job.weights(1), first, k);
  }
#pragma unroll
  for (int i = 0; i < U; ++i) {
    if (lane + i * 32 < pieces) lines.load(held[i], lane + i * 32);
  }
  pdl_wait();

  float acc[R] = {};
  multiply_lines<F, R, U, 32, false>(lines, job.x(), lane, pieces, held, acc, lines, false);
  const float sum = line_total<R>(acc, lane);  // gates in the lower lanes, ups in the upper
  const float up = __shfl_xor_sync(0xffffffffu, sum, 16);
  const bool has = lane < 16 && lane % share == 0;
  const std::uint32_t column = lane / share;
  float y = 0.0f;
  if (has) y = activate(job.activation(), sum) * up;
  if (!job.has(form_quantized)) {
    if (has && first + column < job.n()) job.out(0)[first + column] = y;
    return;
  }
  __shared__ float block[32];
  if (has) block[warp * columns + column] = y;
  __syncthreads();
  if (warp == 0) store_q8a_1(job.quantized_out(), job.n(), blockIdx.x, block[lane]);
}

}  // namespace onepass::ops

// At most 64 registers: a multiprocessor holds 1024 threads; 80 and 768 where more is on its way.
#define OP_MATMUL_LINE(format, Form, name, R, S, U, blocks)             \
  extern "C" __global__ void __launch_bounds__(256, blocks)             \
      matmul_##format##_##name(const __grid_constant__ CudaArgs args) { \
    line_matmul<Form, R, S, U>(args);                                   \
  }
#define OP_MATMUL_GATE(format, Form, name, R, U, threads)               \
  extern "C" __global__ void __launch_bounds__(threads, 1024 / threads) \
      matmul_##format##_##name(const __grid_constant__ CudaArgs args) { \
    line_gate<Form, R, U>(args);                                        \
  }
#define OP_MATMUL_LINES(format, Form)                                      \
  namespace onepass::ops {                                                 \
  OP_MATMUL_LINE(format, Form, line_1, 1, 1, 4, 4)                         \
  OP_MATMUL_LINE(format, Form, line_2, 2, 1, 2, 4)                         \
  OP_MATMUL_LINE(format, Form, line_2_deep, 2, 1, 4, 3)                    \
  OP_MATMUL_LINE(format, Form, line_4, 4, 1, Form::piece == 32 ? 1 : 2, 4) \
  OP_MATMUL_LINE(format, Form, line_1_by_2, 1, 2, 4, 4)                    \
  OP_MATMUL_LINE(format, Form, line_2_by_4, 2, 4, 2, 4)                    \
  OP_MATMUL_GATE(format, Form, gate_1, 2, 2, 1024)                         \
  OP_MATMUL_GATE(format, Form, gate_2, 4, Form::piece == 32 ? 1 : 2, 512)  \
  }

#endif  // ONEPASS_OPS_MATMUL_CUDA_LINE_CUH_
