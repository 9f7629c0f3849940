// Products of a few rows of x with every weight row. A team of 4 to 256 threads computes two weight
// rows (a set: neighbours, or a gate and its up), a block as many sets at a time as it has teams (a
// round). Rows of x lie in shared memory; the first weights are loaded before the wait.
//
// The order of every sum depends on k and the team's size only.
#ifndef ONEPASS_OPS_MATMUL_CUDA_MATVEC_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_MATVEC_CUH_

#include "ops/matmul/cuda_forms.cuh"
#include "ops/matmul/cuda_job.cuh"

namespace onepass::ops {

// 16 bytes at any even address.
__device__ __forceinline__ uint4 load_fresh_16(const unsigned char* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  if (address % 16 == 0) return __ldcg(reinterpret_cast<const uint4*>(p));
  if (address % 8 == 0) {
    const uint2 a = __ldcg(reinterpret_cast<const uint2*>(p));
    const uint2 b = __ldcg(reinterpret_cast<const uint2*>(p) + 1);
    return make_uint4(a.x, a.y, b.x, b.y);
  }
  std::uint32_t w[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto* half = reinterpret_cast<const unsigned short*>(p) + 2 * i;
    w[i] = static_cast<std::uint32_t>(__ldcg(half)) | static_cast<std::uint32_t>(__ldcg(half + 1))
                                                          << 16;
  }
  return make_uint4(w[0], w[1], w[2], w[3]);
}

// Row `row` of x into shared memory, by the whole block.
template <class F>
__device__ __forceinline__ void stage_row(const void* x, std::uint32_t row, std::uint32_t k,
                                          unsigned char* to) {
  const std::uint32_t row_bytes = F::quantized ? k / 32 * 40 : k * 4;
  const auto* from = static_cast<const unsigned char*>(x) + std::uint64_t{row} * row_bytes;
  const std::uint32_t chunks = F::quantized ? k / 16 : k / 4;
  for (std::uint32_t i = threadIdx.x; i < chunks; i += blockDim.x) {
    *reinterpret_cast<uint4*>(to + F::place(i, k)) = load_fresh_16(from + 16 * i);
  }
  if constexpr (F::quantized) {
    // Scales and sums, two blocks at a time; the last may be single.
    const std::uint32_t blocks = k / 32;
    for (std::uint32_t i = 2 * threadIdx.x; i < blocks; i += 2 * blockDim.x) {
      const unsigned char* tail = from + k + 8 * i;
      if (i + 1 < blocks) {
        *reinterpret_cast<uint4*>(to + k + 8 * i) = load_fresh_16(tail);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          *reinterpret_cast<unsigned short*>(to + k + 8 * i + 2 * j) =
              __ldcg(reinterpret_cast<const unsigned short*>(tail) + j);
        }
      }
    }
  }
}

// Two weight rows: of matrix `part` rows `first` and first + 1, or row `first` of gate and up.
struct Set {
  std::uint32_t part, first;
};
__device__ __forceinline__ std::uint32_t sets_of(const Job& job) {
  if (job.is_gate()) return job.n();
  const std::uint32_t first = (job.n() + 1) / 2;
  return job.has_parts() ? first + (job.n(1) + 1) / 2 + (job.n(2) + 1) / 2 : first;
}
__device__ __forceinline__ Set set_at(const Job& job, std::uint32_t i) {
  if (job.is_gate()) return {0, i};
  if (!job.has_parts()) return {0, 2 * i};
  const std::uint32_t a = (job.n() + 1) / 2, b = (job.n(1) + 1) / 2;
  return i < a ? Set{0, 2 * i} : i < a + b ? Set{1, 2 * (i - a)} : Set{2, 2 * (i - a - b)};
}

// What is added to the products of a set and one row of x.
__device__ __forceinline__ float2 added_to(const Job& job, const Set& set, std::uint32_t row) {
  float2 y = make_float2(0.0f, 0.0f);
  const std::uint32_t n = job.n(set.part);
  const bool second = set.first + 1 < n;
  if (const float* bias = job.bias(set.part)) {
    y.x = __ldcg(bias + set.first);
    if (second) y.y = __ldcg(bias + set.first + 1);
  }
  if (const float* residual = job.residual()) {
    const std::uint64_t at = std::uint64_t{row} * n + set.first;
    y.x += __ldcg(residual + at);
    if (second) y.y += __ldcg(residual + at + 1);
  }
  return y;
}

// M rows of x at a time. by_pair: one, blockIdx.y is the pair.
template <class F, int M>
__device__ __forceinline__ void matvec(const CudaArgs& args) {
  constexpr int ahead = M >= 8 ? 1 : F::ahead;
  const Job job{args};
  const std::uint32_t k = job.k();
  const bool by_pair = job.by_pair(), quantized = job.has(form_quantized);
  const std::uint32_t team_log2 = args.values[matmul_team], team = 1u << team_log2;
  const std::uint32_t rounds = args.values[matmul_rounds];
  const std::uint32_t thread = threadIdx.x, lane = thread & (team - 1);
  const std::uint32_t teams = blockDim.x >> team_log2, mine = thread >> team_log2;
  const std::uint32_t pieces = k / F::piece, sets = sets_of(job);
  const std::uint32_t passes = (pieces + team * ahead - 1) / (team * ahead);
  const std::uint32_t unit = teams * rounds, units = (sets + unit - 1) / unit;
  const auto share = [&](std::uint32_t block) {
    return static_cast<std::uint32_t>(std::uint64_t{units} * block / gridDim.x) * rounds;
  };
  const std::uint32_t begin = share(blockIdx.x), end = share(blockIdx.x + 1);

  unsigned char* xs = dynamic_shared();
  const std::uint32_t x_bytes = matmul_x_bytes(F::quantized, k);
  float* partial = reinterpret_cast<float*>(xs + M * x_bytes);  // [2][warps][2][M]
  float* columns = partial + 2 * (blockDim.x / 32) * 2 * M;     // [2][M][32]

  std::uint64_t expert_at = 0;  // bytes
  bool exists = true;
  typename F::Row rows[2];
  typename F::Held held[ahead][2];
  const auto aim = [&](std::uint32_t round) {
    const std::uint32_t i = round * teams + mine;
    const Set set = set_at(job, i < sets ? i : sets - 1);
    if (job.is_gate()) {
      rows[0] = F::row(job.weights(0), set.first, k);
      rows[1] = F::row(job.weights(1), set.first, k);
    } else {
      const unsigned char* matrix = job.weights(set.part) + expert_at;
      const std::uint32_t last = job.n(set.part) - 1;
      rows[0] = F::row(matrix, set.first, k);
      rows[1] = F::row(matrix, set.first < last ? set.first + 1 : last, k);
    }
  };
  const auto load = [&](int u, std::uint32_t pass) {
    const std::uint32_t p = lane + (pass * ahead + static_cast<std::uint32_t>(u)) * team;
    if (p < pieces) {
      F::load(held[u][0], rows[0], p);
      F::load(held[u][1], rows[1], p);
    }
  };
  const auto start = [&] {
    aim(begin);
#pragma unroll
    for (int u = 0; u < ahead; ++u) load(u, 0);
  };

  pdl_launch();
  if (!by_pair && begin < end) start();
  pdl_wait();

  std::uint32_t x_row = blockIdx.y * M, last_row = job.m() - 1;
  if (by_pair) {
    const Pair pair = pair_of(args, blockIdx.y);
    x_row = last_row = pair.x_row;
    exists = pair.expert != ~0u;
    if (exists) {
      expert_at = pair.expert * F::matrix_bytes(job.n(), k);
      if (begin < end) start();
    }
  }
#pragma unroll
  for (std::uint32_t r = 0; r < M; ++r) {
    stage_row<F>(job.x(), x_row + r < last_row ? x_row + r : last_row, k, xs + r * x_bytes);
  }
  __syncthreads();

  for (std::uint32_t round = begin; round < end; ++round) {
    const std::uint32_t index = round * teams + mine;
    const bool stores = index < sets && lane < 32;
    float2 added = make_float2(0.0f, 0.0f);
    if constexpr (M == 1) {
      if (stores && lane == 0 && !job.is_gate()) {
        added = added_to(job, set_at(job, index), blockIdx.y);
      }
    }
    float acc[2][M] = {};
    for (std::uint32_t pass = 0; pass < passes; ++pass) {
      const bool last = pass + 1 == passes, more = (!last || round + 1 < end) && exists;
      if (last && more) aim(round + 1);
#pragma unroll
      for (int u = 0; u < ahead; ++u) {
        const std::uint32_t p = lane + (pass * ahead + static_cast<std::uint32_t>(u)) * team;
        if (p < pieces && exists) {
#pragma unroll
          for (std::uint32_t r = 0; r < M; ++r) {
            const typename F::X x = F::load_x(xs + r * x_bytes, p, k);
            F::dot(held[u][0], x, acc[0][r]);
            F::dot(held[u][1], x, acc[1][r]);
          }
        }
        if (more) load(u, last ? 0 : pass + 1);
      }
    }
    for (std::uint32_t offset = (team < 32 ? team : 32) / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int r = 0; r < M; ++r) {
        acc[0][r] += __shfl_xor_sync(0xffffffffu, acc[0][r], static_cast<int>(offset));
        acc[1][r] += __shfl_xor_sync(0xffffffffu, acc[1][r], static_cast<int>(offset));
      }
    }
    if (team > 32) {
      float* sums = partial + round % 2 * (blockDim.x / 32) * 2 * M;
      if (thread % 32 == 0) {
#pragma unroll
        for (int r = 0; r < M; ++r) {
          sums[(thread / 32 * 2) * M + r] = acc[0][r];
          sums[(thread / 32 * 2 + 1) * M + r] = acc[1][r];
        }
      }
      __syncthreads();
      if (stores) {
#pragma unroll
        for (int r = 0; r < M; ++r) {
          acc[0][r] = acc[1][r] = 0.0f;
          for (std::uint32_t w = thread / 32; w < thread / 32 + team / 32; ++w) {
            acc[0][r] += sums[(w * 2) * M + r];
            acc[1][r] += sums[(w * 2 + 1) * M + r];
          }
        }
      }
    }
    const Set set = set_at(job, index < sets ? index : sets - 1);
#pragma unroll
    for (std::uint32_t r = 0; r < M; ++r) {
      const std::uint32_t row = blockIdx.y * M + r;
      if (!stores || lane != r % (team < 32 ? team : 32) || row >= job.m()) continue;
      if (job.is_gate()) {
        const float y = activate(job.activation(), acc[0][r]) * acc[1][r];
        if (!quantized) {
          job.out(0)[std::uint64_t{row} * job.n() + set.first] = y;
        } else {
          columns[(round / rounds % 2 * M + r) * 32 + set.first % 32] = y;
        }
        continue;
      }
      if constexpr (M > 1) added = added_to(job, set, row);
      const std::uint32_t n = job.n(set.part);
      float* out = job.out(set.part) + std::uint64_t{row} * n + set.first;
      out[0] = acc[0][r] + added.x;
      if (set.first + 1 < n) out[1] = acc[1][r] + added.y;
    }
    if (quantized && (round + 1) % rounds == 0) {
      __syncthreads();
      const std::uint32_t block = round / rounds;  // of 32 columns
      for (std::uint32_t r = thread / 32; r < M; r += blockDim.x / 32) {
        const std::uint32_t row = blockIdx.y * M + r;
        if (row >= job.m()) break;
        store_q8a_1(job.quantized_out() + std::uint64_t{row} * (job.n() / 32 * 40), job.n(), block,
                    columns[(block % 2 * M + r) * 32 + thread % 32]);
      }
    }
  }
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_MATMUL_CUDA_MATVEC_CUH_
