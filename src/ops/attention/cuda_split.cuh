// Attention of few rows (launch_cuda.h): what blocks do with the chunks that a Chunk class
// computes.
//
// A Chunk has: slots (parts a chunk is left in), outputs (values a thread keeps), a constructor
// that loads the queries, attend(...) for one chunk, and, if it prefetches, prefetch(...) of keys
// that lie beside each other.
#ifndef ONEPASS_OPS_ATTENTION_CUDA_SPLIT_CUH_
#define ONEPASS_OPS_ATTENTION_CUDA_SPLIT_CUH_

#include "ops/attention/cuda_keys.cuh"
#include "ops/attention/launch_cuda.h"

namespace onepass::ops {

// What a chunk leaves in shared memory: slot s of query q.
struct SplitMemory {
  float top[8][split_queries];
  float sum[8][split_queries];
  float weights[split_queries][max_splits];  // of the parts of a query
  float ends[split_queries][2];              // factor and total
  bool is_last;
};

struct SplitBlock {
  const CudaArgs& args;
  const AttentionParams p;
  std::uint32_t row, kv_head, first_head, n_queries;  // heads [first_head, + n_queries)
  std::uint32_t splits;
  float* values;  // [slots][n_queries][split_stride]

  __device__ float* slot_values(std::uint32_t slot, std::uint32_t query) const {
    return values + (slot * n_queries + query) * split_stride(p.head_dim);
  }
  __device__ std::uint64_t part(std::uint32_t head, std::uint32_t split) const {
    return (std::uint64_t{row} * p.heads + head) * splits + split;
  }
};

// Adds (top, sum) to what is there, both relative to a maximum; returns the factors of both.
__device__ inline float2 fold_tops(float& top, float& sum, float other_top, float other_sum) {
  const float highest = fmaxf(top, other_top);
  const float base = highest > -INFINITY ? highest : 0.0f;
  const float keep = exp2f(top - base), take = exp2f(other_top - base);
  sum = sum * keep + other_sum * take;
  top = highest;
  return make_float2(keep, take);
}

// Values of `n` queries in shared memory, [n][head_dim], as the row's result.
template <bool Quantized>
__device__ inline void store_heads(const SplitBlock& b, const float* results) {
  const std::uint64_t row_values = std::uint64_t{b.p.heads} * b.p.head_dim;
  const std::uint64_t first = std::uint64_t{b.first_head} * b.p.head_dim;
  const std::uint32_t n = b.n_queries * b.p.head_dim;
  if constexpr (Quantized) {
    std::uint8_t* out = b.args.ptr<std::uint8_t>(6) + b.row * (row_values / 32 * 40);
    for (std::uint32_t i = threadIdx.x / 32; i < n / 32; i += blockDim.x / 32) {
      store_q8a_1(out, row_values, first / 32 + i, results[32 * i + threadIdx.x % 32]);
    }
  } else {
    float* out = b.args.ptr<float>(6) + b.row * row_values + first;
    for (std::uint32_t i = threadIdx.x; i < n; i += blockDim.x) out[i] = results[i];
  }
}

// Combines the parts of the block's queries, which lie in scratch in the order of their first
// chunks, and leaves the finished values in results.
__device__ inline void combine_parts(const SplitBlock& b, SplitMemory& m, std::uint64_t first_chunk,
                                     std::uint32_t n_parts, float* results) {
  const float* scratch = static_cast<const float*>(b.args.scratch);
  const SplitScratch at = split_scratch(b.p, b.splits);
  const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto split_of = [&](std::uint32_t i) {
    return static_cast<std::uint32_t>((first_chunk + i) % b.splits);
  };
  __syncthreads();
  if (warp < b.n_queries) {
    const std::uint32_t head = b.first_head + warp;
    float2 parts[max_splits / 32];
    float top = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int j = 0; j < static_cast<int>(max_splits) / 32; ++j) {
      const std::uint32_t i = lane + 32 * j;
      parts[j] = make_float2(-INFINITY, 0.0f);
      if (i < n_parts) {
        parts[j] = __ldcg(reinterpret_cast<const float2*>(scratch) + b.part(head, split_of(i)));
      }
      top = fmaxf(top, parts[j].x);
    }
#pragma unroll
    for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    const float base = top > -INFINITY ? top : 0.0f;
#pragma unroll
    for (int j = 0; j < static_cast<int>(max_splits) / 32; ++j) {
      const float weight = exp2f(parts[j].x - base);
      m.weights[warp][lane + 32 * j] = weight;
      sum += parts[j].y * weight;
    }
    sum = warp_sum(sum);
    if (lane == 0) {
      const float* sinks = b.args.ptr<const float>(5);
      const Ending end = with_sink(top, sum, sinks != nullptr ? sinks + head : nullptr);
      m.ends[warp][0] = end.factor;
      m.ends[warp][1] = end.total;
    }
  }
  __syncthreads();
  const std::uint32_t dim = b.p.head_dim;
  for (std::uint32_t i = threadIdx.x; i < b.n_queries * dim; i += blockDim.x) {
    const std::uint32_t query = i / dim, e = i % dim;
    const float* from = scratch + at.values_at + e;
    float acc = 0.0f;
#pragma unroll 8
    for (std::uint32_t j = 0; j < n_parts; ++j) {
      const float x = __ldcg(from + b.part(b.first_head + query, split_of(j)) * dim);
      acc = fmaf(x, m.weights[query][j], acc);
    }
    const float total = m.ends[query][1];
    results[i] = total == 0.0f ? 0.0f : acc * m.ends[query][0] / total;
  }
  __syncthreads();
}

// The row of a block whose heads share blocks of 32 values with others: all heads one after the
// other, then the row.
template <bool Quantized>
__device__ inline void combine_row(SplitBlock b, SplitMemory& m, std::uint64_t first_chunk,
                                   std::uint32_t n_parts, float* results) {
  const std::uint64_t row_values = std::uint64_t{b.p.heads} * b.p.head_dim;
  float* whole = static_cast<float*>(b.args.scratch) + split_scratch(b.p, b.splits).rows_at +
                 b.row * row_values;
  const std::uint32_t group = b.p.heads / b.p.kv_heads;
  for (std::uint32_t head = 0; head < b.p.heads; head += b.n_queries) {
    b.first_head = head;
    b.n_queries = min(split_queries, group - head % group);
    combine_parts(b, m, first_chunk, n_parts, results);
    for (std::uint32_t i = threadIdx.x; i < b.n_queries * b.p.head_dim; i += blockDim.x) {
      whole[std::uint64_t{head} * b.p.head_dim + i] = results[i];
    }
    __syncthreads();
  }
  std::uint8_t* out = b.args.ptr<std::uint8_t>(6) + b.row * (row_values / 32 * 40);
  for (std::uint64_t i = threadIdx.x / 32; i < row_values / 32; i += blockDim.x / 32) {
    store_q8a_1(out, row_values, i, whole[32 * i + threadIdx.x % 32]);
  }
}

// The chunks of a row and which of them are the block's: mine, mine + splits, ...
struct SplitShare {
  std::uint64_t first_chunk, chunks;
  std::uint32_t n_parts;  // blocks with work; without keys one writes zeros
  std::uint32_t mine;

  __device__ SplitShare(const RowKeys& keys, std::uint32_t splits) {
    first_chunk = keys.begin / split_keys;
    chunks = keys.begin < keys.end ? (keys.end + split_keys - 1) / split_keys - first_chunk : 0;
    n_parts = static_cast<std::uint32_t>(min(max(chunks, std::uint64_t{1}), std::uint64_t{splits}));
    mine = (blockIdx.y + splits - static_cast<std::uint32_t>(first_chunk % splits)) % splits;
  }
};

template <class Chunk, bool Quantized>
__device__ void attend_row(const CudaArgs& args) {
  __shared__ SplitMemory m;
  pdl_launch();
  const AttentionParams p = args.params_as<AttentionParams>();
  const std::uint32_t groups = head_groups(p), group = p.heads / p.kv_heads;
  const std::uint32_t kv_head = blockIdx.x / groups, part_of_group = blockIdx.x % groups;
  SplitBlock b{args,
               p,
               blockIdx.z,
               kv_head,
               kv_head * group + part_of_group * split_queries,
               min(split_queries, group - part_of_group * split_queries),
               gridDim.y,
               reinterpret_cast<float*>(dynamic_shared())};
  const DevicePlaces places = attention_places(args, p);
  if constexpr (Chunk::prefetches) {
    if (threadIdx.x == 0 && places.pages == nullptr && !places.ring) {
      const RowKeys guess = row_keys(args, p, places, b.row);
      const SplitShare share(guess, b.splits);
      if (guess.active && share.mine < share.chunks) {
        const std::uint64_t first = (share.first_chunk + share.mine) * split_keys;
        Chunk::prefetch(b, places, guess.slot, max(first, guess.begin),
                        min(first + split_keys, guess.end));
      }
    }
  }
  pdl_wait();
  const RowKeys keys = row_keys(args, p, places, b.row);
  if (!keys.active) return;
  const SplitShare share(keys, b.splits);
  const std::uint64_t first_chunk = share.first_chunk, chunks = share.chunks;
  const std::uint32_t n_parts = share.n_parts, mine = share.mine;
  if (mine >= n_parts) return;

  Chunk chunk(b);
  const std::uint32_t dim = p.head_dim, n_outputs = b.n_queries * dim;
  float acc[Chunk::outputs], tops[Chunk::outputs], sums[Chunk::outputs];
#pragma unroll
  for (int j = 0; j < Chunk::outputs; ++j) {
    acc[j] = sums[j] = 0.0f;
    tops[j] = -INFINITY;
  }
  for (std::uint64_t c = mine; c < chunks; c += b.splits) {
    const KeyFinder finder{places, keys.slot, keys.page_offset, b.kv_head, keys.begin, keys.end};
    if (c != mine) __syncthreads();  // what the last chunk left is still read
    chunk.attend(b, m, finder, (first_chunk + c) * split_keys);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < Chunk::outputs; ++j) {
      const std::uint32_t i = threadIdx.x + j * split_threads;
      if (i >= n_outputs) break;
      const std::uint32_t query = i / dim, e = i % dim;
      float top = -INFINITY;
#pragma unroll
      for (int s = 0; s < Chunk::slots; ++s) top = fmaxf(top, m.top[s][query]);
      const float base = top > -INFINITY ? top : 0.0f;
      float x = 0.0f, sum = 0.0f;
#pragma unroll
      for (int s = 0; s < Chunk::slots; ++s) {
        const float weight = exp2f(m.top[s][query] - base);
        x = fmaf(b.slot_values(s, query)[e], weight, x);
        sum = fmaf(m.sum[s][query], weight, sum);
      }
      const float2 factors = fold_tops(tops[j], sums[j], top, sum);
      acc[j] = fmaf(x, factors.y, acc[j] * factors.x);
    }
  }

  const bool all_heads = Quantized && heads_share_blocks(p);
  float* results = b.values;
  if (n_parts == 1 && !all_heads) {
    __syncthreads();
    const float* sinks = args.ptr<const float>(5);
#pragma unroll
    for (int j = 0; j < Chunk::outputs; ++j) {
      const std::uint32_t i = threadIdx.x + j * split_threads;
      if (i >= n_outputs) break;
      const Ending end =
          with_sink(tops[j], sums[j], sinks != nullptr ? sinks + b.first_head + i / dim : nullptr);
      results[i] = end.total == 0.0f ? 0.0f : acc[j] * end.factor / end.total;
    }
    __syncthreads();
    store_heads<Quantized>(b, results);
    return;
  }

  float* scratch = static_cast<float*>(args.scratch);
  const SplitScratch at = split_scratch(p, b.splits);
#pragma unroll
  for (int j = 0; j < Chunk::outputs; ++j) {
    const std::uint32_t i = threadIdx.x + j * split_threads;
    if (i >= n_outputs) break;
    const std::uint64_t part = b.part(b.first_head + i / dim, blockIdx.y);
    __stcg(scratch + at.values_at + part * dim + i % dim, acc[j]);
    if (i % dim == 0) {
      __stcg(reinterpret_cast<float2*>(scratch) + part, make_float2(tops[j], sums[j]));
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const std::uint32_t blocks = all_heads ? n_parts * gridDim.x : n_parts;
    auto* counter = static_cast<std::uint32_t*>(args.persistent) +
                    (all_heads ? b.row : b.row * gridDim.x + blockIdx.x);
    m.is_last = atomicAdd(counter, 1u) + 1 == blocks;
    if (m.is_last) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  if (!m.is_last) return;
  if (all_heads) {
    combine_row<Quantized>(b, m, first_chunk, n_parts, results);
  } else {
    combine_parts(b, m, first_chunk, n_parts, results);
    store_heads<Quantized>(b, results);
  }
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_ATTENTION_CUDA_SPLIT_CUH_
