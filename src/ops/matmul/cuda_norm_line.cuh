// Products of a row of x that is normed on the way with every weight row of a packed format. A
// block quantizes x times the norm's weight into shared memory; the norm's factor, which all of x
// has a part in, multiplies the finished products. So that few blocks do this they are large and go
// on to further sets (cuda_line.cuh), each warp with the first pieces of its next set on their way
// before it adds up the last.
//
// The order of every sum depends on k, R, U and the size of a block only.
#ifndef ONEPASS_OPS_MATMUL_CUDA_NORM_LINE_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_NORM_LINE_CUH_

#include "ops/matmul/cuda_line.cuh"

namespace onepass::ops {

// This thread's first 4 * Kept weights of the norm, which may be loaded before the wait.
template <int Kept>
__device__ __forceinline__ void load_norm(const float* weight, std::uint32_t k, uint4 (&w)[Kept]) {
#pragma unroll
  for (int j = 0; j < Kept; ++j) {
    const std::uint32_t i = 4 * (threadIdx.x + static_cast<std::uint32_t>(j) * blockDim.x);
    w[j] = i < k ? load_weights_16(weight + i) : make_uint4(0, 0, 0, 0);
  }
}

// Elements [i, i + 4) of x times the norm's weight, to where F::load_x finds them; the sum of x's
// squares. The whole warp takes part; x is zero where i is not below k.
template <class F>
__device__ __forceinline__ float stage_4(unsigned char* to, std::uint32_t k, std::uint32_t i,
                                         float4 x, uint4 w) {
  const Q8aPart part =
      quantize_q8a_4(make_float4(x.x * __uint_as_float(w.x), x.y * __uint_as_float(w.y),
                                 x.z * __uint_as_float(w.z), x.w * __uint_as_float(w.w)));
  if (i < k) {
    *reinterpret_cast<std::uint32_t*>(to + F::place(i / 16, k) + i % 16) = part.numbers;
    if (i % 32 == 0) *reinterpret_cast<uint2*>(to + k + i / 4) = part.tail;
  }
  return (x.x * x.x + x.y * x.y) + (x.z * x.z + x.w * x.w);
}

// All of x into shared memory, by the block; sums[warp] gets the sum of the warp's squares.
template <class F, int Kept>
__device__ __forceinline__ void stage_normed(const float* x, const float* weight, std::uint32_t k,
                                             const uint4 (&w)[Kept], unsigned char* to,
                                             float* sums) {
  const auto load = [x, k](std::uint32_t i) {
    // Through L1, which a second block of the multiprocessor shares.
    return i < k ? *reinterpret_cast<const float4*>(x + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  };
  const std::uint32_t threads = blockDim.x;
  float4 v[Kept];
  float squares = 0.0f;
#pragma unroll
  for (int j = 0; j < Kept; ++j) {
    v[j] = load(4 * (threadIdx.x + static_cast<std::uint32_t>(j) * threads));
  }
#pragma unroll
  for (int j = 0; j < Kept; ++j) {
    const std::uint32_t first = static_cast<std::uint32_t>(j) * threads;
    if (4 * first < k) squares += stage_4<F>(to, k, 4 * (first + threadIdx.x), v[j], w[j]);
  }
  for (std::uint32_t first = Kept * threads; 4 * first < k; first += threads) {
    const std::uint32_t i = 4 * (first + threadIdx.x);
    const uint4 more = i < k ? load_weights_16(weight + i) : make_uint4(0, 0, 0, 0);
    squares += stage_4<F>(to, k, i, load(i), more);
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
}

// The norm's factor; the whole warp takes part.
__device__ __forceinline__ float norm_factor(const float* sums, std::uint32_t k, float eps) {
  const std::uint32_t lane = threadIdx.x % 32;
  const float squares = warp_sum(lane < blockDim.x / 32 ? sums[lane] : 0.0f);
  return 1.0f / op_sqrt(squares / static_cast<float>(k) + eps);
}

template <class F, int R>
__device__ __forceinline__ Lines<F, R, 1> lines_of(const Job& job, const Line& line) {
  const std::uint32_t k = job.k();
  Lines<F, R, 1> lines{{nullptr}, line.first % 16, k};
  if (line.exists) {
    lines.group[0] = group_of<typename F::Split>(job.weights(line.part), line.first, k);
  }
  return lines;
}

// One product, or parts.
template <class F, int R, int U, int Kept>
__device__ __forceinline__ void norm_line(const CudaArgs& args) {
  __shared__ float sums[32];
  constexpr std::uint32_t share = 32 / R;
  const Job job{args};
  const std::uint32_t k = job.k(), lane = threadIdx.x % 32;
  const std::uint32_t pieces = k / F::piece, step = blockDim.x / 32 * gridDim.x;
  // Neighbouring sets in different blocks, so that all have as many to do.
  const std::uint32_t begin = threadIdx.x / 32 * gridDim.x + blockIdx.x;
  Line line = line_at<R>(job, begin);
  Lines<F, R, 1> lines = lines_of<F, R>(job, line);
  typename F::Held held[U][R];
  uint4 w[Kept];

  pdl_launch();
  load_norm(job.norm_weight(), k, w);
  if (line.exists) {
#pragma unroll
    for (int i = 0; i < U; ++i) {
      if (lane + i * 32 < pieces) lines.load(held[i], lane + i * 32);
    }
  }
  pdl_wait();
  unsigned char* const x = dynamic_shared();
  stage_normed<F>(args.ptr<const float>(matmul_x), job.norm_weight(), k, w, x, sums);
  __syncthreads();

  float factor = 0.0f;
  for (std::uint32_t set = begin; line.exists; set += step) {
    const std::uint32_t row = line.first + lane / share;
    const bool stores = lane % share == 0 && row < job.n(line.part);
    const float* bias = job.bias(line.part);
    const float added = stores && bias != nullptr ? __ldcg(bias + row) : 0.0f;
    const Line following = line_at<R>(job, set + step);
    const Lines<F, R, 1> next = lines_of<F, R>(job, following);
    float acc[R] = {};
    multiply_lines<F, R, U, 32, true>(lines, x, lane, pieces, held, acc, next, following.exists);
    const float sum = line_total<R>(acc, lane);
    if (set == begin) factor = norm_factor(sums, k, job.eps());
    if (stores) job.out(line.part)[row] = sum * factor + added;
    line = following;
    lines = next;
  }
}

// Quantized gates: a block has 32 columns at a time.
template <class F, int R, int U, int Kept>
__device__ __forceinline__ void norm_gate(const CudaArgs& args) {
  __shared__ float sums[32], columns[2][32];
  constexpr std::uint32_t width = R / 2, share = 32 / R;
  const Job job{args};
  const std::uint32_t k = job.k(), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::uint32_t pieces = k / F::piece, blocks = job.n() / 32;
  const auto lines_at = [&](std::uint32_t block) {
    const std::uint32_t column = 32 * block + warp * width;
    Lines<F, R, 2> lines{{nullptr, nullptr}, column % 16, k};
    if (block < blocks) {
      lines.group[0] = group_of<typename F::Split>(job.weights(0), column, k);
      lines.group[1] = group_of<typename F::Split>(job.weights(1), column, k);
    }
    return lines;
  };
  Lines<F, R, 2> lines = lines_at(blockIdx.x);
  typename F::Held held[U][R];
  uint4 w[Kept];

  pdl_launch();
  load_norm(job.norm_weight(), k, w);
  if (blockIdx.x < blocks) {
#pragma unroll
    for (int i = 0; i < U; ++i) {
      if (lane + i * 32 < pieces) lines.load(held[i], lane + i * 32);
    }
  }
  pdl_wait();
  unsigned char* const x = dynamic_shared();
  stage_normed<F>(args.ptr<const float>(matmul_x), job.norm_weight(), k, w, x, sums);
  __syncthreads();

  float factor = 0.0f;
  std::uint32_t round = 0;
  for (std::uint32_t block = blockIdx.x; block < blocks; block += gridDim.x, ++round) {
    const Lines<F, R, 2> next = lines_at(block + gridDim.x);
    float acc[R] = {};
    multiply_lines<F, R, U, 32, true>(lines, x, lane, pieces, held, acc, next,
                                      block + gridDim.x < blocks);
    float sum = line_total<R>(acc, lane);  // gates in the lower lanes, ups in the upper
    if (round == 0) factor = norm_factor(sums, k, job.eps());
    sum *= factor;
    const float up = __shfl_xor_sync(0xffffffffu, sum, 16);
    if (lane < 16 && lane % share == 0) {
      columns[round % 2][warp * width + lane / share] = activate(job.activation(), sum) * up;
    }
    __syncthreads();
    if (warp == round % (blockDim.x / 32)) {
      store_q8a_1(job.quantized_out(), job.n(), block, columns[round % 2][lane]);
    }
    lines = next;
  }
}

}  // namespace onepass::ops

// At most 64 registers: formats whose pieces need many have fewer pieces and norm weights on their
// way.
#define OP_MATMUL_NORM(format, Form, name, kernel, R, U, threads)       \
  extern "C" __global__ void __launch_bounds__(threads, 1024 / threads) \
      matmul_##format##_##name(const __grid_constant__ CudaArgs args) { \
    kernel<Form, R, U, threads == 512 ? Form::norm_ahead : 1>(args);    \
  }
#define OP_MATMUL_NORMS(format, Form)                                                       \
  namespace onepass::ops {                                                                  \
  OP_MATMUL_NORM(format, Form, norm_1, norm_line, 1, Form::x_batch == 1 ? 2 : 4, 512)       \
  OP_MATMUL_NORM(format, Form, norm_2, norm_line, 2, Form::x_batch == 1 ? 1 : 2, 512)       \
  OP_MATMUL_NORM(format, Form, norm_4, norm_line, 4, 1, 512)                                \
  OP_MATMUL_NORM(format, Form, norm_gate_1, norm_gate, 2, Form::x_batch == 1 ? 1 : 2, 1024) \
  OP_MATMUL_NORM(format, Form, norm_gate_2, norm_gate, 4, 1, 512)                           \
  }

#endif  // ONEPASS_OPS_MATMUL_CUDA_NORM_LINE_CUH_
