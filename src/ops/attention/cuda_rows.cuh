// Attention of many rows with f16 keys and values (launch_cuda.h). Queries (row, head of the kv
// head) are counted row by row; a warp has eight of them, a block four warps. Every warp reads its
// keys itself: those of a block's warps are the same, so that most reads end in L1.
#ifndef ONEPASS_OPS_ATTENTION_CUDA_ROWS_CUH_
#define ONEPASS_OPS_ATTENTION_CUDA_ROWS_CUH_

#include "ops/attention/cuda_keys.cuh"
#include "ops/attention/launch_cuda.h"

namespace onepass::ops {
template <int Dim>
struct RowsState {
  float acc[Dim / 64][8][4];
  float top, sum;  // of query lane / 4; the sum is this lane's part
};

// 16 keys from `first` for the queries that see some of them.
template <int Dim>
__device__ inline void attend_16(const AttentionParams& p, const CudaArgs& args,
                                 const QueryFragments<Dim>& q, const KeyFinder& finder,
                                 const RowKeys& mine, bool member, std::uint64_t first, bool k_wide,
                                 bool v_wide, RowsState<Dim>& state) {
  const std::uint32_t t = threadIdx.x % 4;
  KeyFragments<Dim> keys;
  keys.load(finder, args.ptr<const Half>(1), first, k_wide);
  const Half* rows[4];
  value_rows(finder, args.ptr<const Half>(2), Dim, first, rows);
  float s[2][2];
  keys.products(q, s);
  float top = -INFINITY;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint64_t position = first + 8 * j + 2 * t + i;
      const bool seen =
          member && rows[2 * j + i] != nullptr && position >= mine.begin && position < mine.end;
      s[j][i] = seen ? finish_score(p, s[j][i]) : -INFINITY;
      top = fmaxf(top, s[j][i]);
    }
  }
  top = fmaxf(max_over_4(top), state.top);
  const float base = top > -INFINITY ? top : 0.0f;
  if (__any_sync(0xffffffffu, top > state.top)) {
    const float shrink = exp2_approx(state.top - base);
    state.sum *= shrink;
#pragma unroll
    for (int c = 0; c < Dim / 64; ++c) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) state.acc[c][j][i] *= shrink;
      }
    }
    state.top = top;
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      s[j][i] = exp2_approx(s[j][i] - base);
      state.sum += s[j][i];
    }
  }
  std::uint32_t weights[4];
  weight_fragments(s, weights);
#pragma unroll
  for (int c = 0; c < Dim / 64; ++c) {
    ValueFragments values;
    values.load(rows, c, v_wide);
    values.add(weights, state.acc[c]);
  }
}

template <int Dim, bool Quantized>
__device__ void attend_rows(const CudaArgs& args) {
  __shared__ float results[many_threads / 32][8][Dim + 4];
  pdl_launch();
  const AttentionParams p = args.params_as<AttentionParams>();
  const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const std::uint32_t group = p.heads / p.kv_heads, kv_head = blockIdx.y;
  const std::uint64_t n_queries = std::uint64_t{p.rows} * group;
  // The last rows see the most keys: they start first.
  const std::uint64_t first_query =
      std::uint64_t{gridDim.x - 1 - blockIdx.x} * many_queries + 8 * warp;
  const std::uint64_t query = first_query + g;
  const std::uint32_t row = static_cast<std::uint32_t>(query / group);
  const std::uint32_t head = kv_head * group + static_cast<std::uint32_t>(query % group);
  const bool k_wide = is_aligned_16(args.views[1]), v_wide = is_aligned_16(args.views[2]);
  pdl_wait();
  const DevicePlaces places = attention_places(args, p);
  RowKeys mine;
  mine.active = false;
  if (query < n_queries) mine = row_keys(args, p, places, row);
  const std::uint64_t at = (std::uint64_t{row} * p.heads + head) * Dim;
  QueryFragments<Dim> q;
  q.load(mine.active ? args.ptr<const float>(0) + at : nullptr);
  RowsState<Dim> state;
  state.top = -INFINITY;
  state.sum = 0.0f;
#pragma unroll
  for (int c = 0; c < Dim / 64; ++c) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) state.acc[c][j][i] = 0.0f;
    }
  }
  // Queries of one slot after those of another.
  std::uint32_t left = __ballot_sync(0xffffffffu, mine.active && mine.begin < mine.end);
  while (left != 0) {
    const int leader = __ffs(static_cast<int>(left)) - 1;
    const std::uint32_t slot = __shfl_sync(0xffffffffu, mine.slot, leader);
    const std::uint32_t page_offset = __shfl_sync(0xffffffffu, mine.page_offset, leader);
    const bool member =
        (left >> lane & 1) != 0 && mine.slot == slot && mine.page_offset == page_offset;
    unsigned long long begin = member ? mine.begin : ~0ull, end = member ? mine.end : 0ull;
#pragma unroll
    for (int o = 4; o < 32; o *= 2) {
      begin = min(begin, __shfl_xor_sync(0xffffffffu, begin, o));
      end = max(end, __shfl_xor_sync(0xffffffffu, end, o));
    }
    const KeyFinder finder{places, slot, page_offset, kv_head, begin, end};
    for (std::uint64_t first = begin / 16 * 16; first < end; first += 16) {
      attend_16<Dim>(p, args, q, finder, mine, member, first, k_wide, v_wide, state);
    }
    left &= ~__ballot_sync(0xffffffffu, member);
  }
  const float* sinks = args.ptr<const float>(5);
  const float sum = sum_over_4(state.sum);
  const Ending ending =
      with_sink(state.top, sum, sinks != nullptr && mine.active ? sinks + head : nullptr);
  const float factor = ending.factor * (1.0f / weight_unit);
#pragma unroll
  for (int c = 0; c < Dim / 64; ++c) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float x = (state.acc[c][j][half] + state.acc[c][j][half + 2]) * factor;
        results[warp][g][64 * c + 16 * t + 8 * half + j] =
            ending.total == 0.0f ? 0.0f : x / ending.total;
      }
    }
  }
  __syncwarp();
  const std::uint64_t row_values = std::uint64_t{p.heads} * Dim;
#pragma unroll 1
  for (std::uint32_t i = 0; i < 8; ++i) {
    const bool active = __shfl_sync(0xffffffffu, mine.active ? 1 : 0, 4 * i) != 0;
    if (!active) continue;
    const std::uint64_t other = first_query + i;
    const std::uint64_t to =
        other / group * row_values + (kv_head * group + other % group) * std::uint64_t{Dim};
    if constexpr (Quantized) {
      std::uint8_t* out = args.ptr<std::uint8_t>(6) + to / row_values * (row_values / 32 * 40);
      for (std::uint32_t b = 0; b < Dim / 32; ++b) {
        store_q8a_1(out, row_values, to % row_values / 32 + b, results[warp][i][32 * b + lane]);
      }
    } else {
      for (std::uint32_t e = lane; e < Dim; e += 32) {
        args.ptr<float>(6)[to + e] = results[warp][i][e];
      }
    }
  }
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_ATTENTION_CUDA_ROWS_CUH_
