// One row: its queries and key are turned, key and value stored, then the queries attend. A cluster
// has one kv head (launch_cuda.h). Every block turns the queries; the one that has the tile of the
// new position also turns the key and keeps both new rows in its shared memory, so that nobody
// reads from the caches what is being written. So the step and the older keys are read before the
// wait.
#ifndef ONEPASS_OPS_ATTENTION_CUDA_CLUSTER_CUH_
#define ONEPASS_OPS_ATTENTION_CUDA_CLUSTER_CUH_

#include "ops/attention/cuda_keys.cuh"
#include "ops/attention/launch_cuda.h"
#include "ops/shared/cuda_turn.cuh"

namespace onepass::ops {

enum ClusterView {
  cluster_q,
  cluster_q_norm,
  cluster_k,
  cluster_k_norm,
  cluster_v,
  cluster_step,
  cluster_factors,
  cluster_pages,
  cluster_sinks,
  cluster_out,
  cluster_k_cache,
  cluster_v_cache
};

__device__ inline AttentionParams attention_params(const RopeAttentionParams& p) {
  const RopeStoreParams& s = p.store;
  return {form_quantized, 1,          s.heads, s.kv_heads, s.head_dim,
          s.slots,        s.capacity, s.ring,  1,          0,
          p.causal,       p.window,   p.scale, p.softcap,  s.v_type};
}

// The pairs of a head that a lane has: lane, lane + 32, ...
template <int Pairs>
struct HeadPairs {
  float x0[Pairs], x1[Pairs];

  __device__ __forceinline__ void load(const RopeAngles& a, const float* head) {
#pragma unroll
    for (int j = 0; j < Pairs; ++j) {
      const std::uint32_t i = threadIdx.x % 32 + 32 * j;
      x0[j] = head[i * a.step];
      x1[j] = head[i * a.step + a.distance];
    }
  }
  // By a norm of the head's elements with these weights.
  __device__ __forceinline__ void scale(const HeadPairs& weights, float eps) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < Pairs; ++j) sum = fmaf(x0[j], x0[j], fmaf(x1[j], x1[j], sum));
    const float r = 1.0f / op_sqrt(warp_sum(sum) / static_cast<float>(64 * Pairs) + eps);
#pragma unroll
    for (int j = 0; j < Pairs; ++j) {
      x0[j] = x0[j] * r * weights.x0[j];
      x1[j] = x1[j] * r * weights.x1[j];
    }
  }
  __device__ __forceinline__ void turn(const CosSin (&turns)[Pairs]) {
#pragma unroll
    for (int j = 0; j < Pairs; ++j) {
      const float a = x0[j], b = x1[j];
      x0[j] = turned_0(turns[j], a, b);
      x1[j] = turned_1(turns[j], a, b);
    }
  }
  // put(element, value)
  template <class Put>
  __device__ __forceinline__ void store(const RopeAngles& a, const Put& put) const {
#pragma unroll
    for (int j = 0; j < Pairs; ++j) {
      const std::uint32_t i = threadIdx.x % 32 + 32 * j;
      put(i * a.step, x0[j]);
      put(i * a.step + a.distance, x1[j]);
    }
  }
};

// Fragments of a tile in shared memory.
template <int Dim>
__device__ __forceinline__ void read_keys(const ClusterTile<Dim>& tile, KeyFragments<Dim>& keys) {
  const std::uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int i = 0; i < Dim / 32; ++i) {
      keys.k[j][i] = *reinterpret_cast<const uint4*>(&tile.keys[8 * j + g][32 * i + 8 * t]);
    }
  }
}
template <int Dim>
__device__ __forceinline__ void read_values(const ClusterTile<Dim>& tile, std::uint32_t c,
                                            ValueFragments& values) {
  const std::uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values.v[i] =
        *reinterpret_cast<const uint4*>(&tile.values[8 * (i / 2) + 2 * t + i % 2][64 * c + 8 * g]);
  }
}

inline constexpr std::uint32_t no_row = ~0u;

// Where positions of one kv head lie in caches of fewer than 2^32 rows; as DevicePlaces.
struct ClusterPlaces {
  const std::uint32_t* pages;  // null: none
  std::uint32_t n_pages, capacity, block, heads, head, blocks;
  bool ring;

  __device__ __forceinline__ ClusterPlaces(const CudaArgs& args, const RopeStoreParams& p,
                                           const StepEntry& step)
      : pages(nullptr),
        n_pages(0),
        capacity(p.capacity),
        block(step.slot),
        heads(p.kv_heads),
        head(blockIdx.x),
        blocks(p.slots),
        ring(p.ring != 0) {
    const std::uint64_t n = args.bytes[cluster_pages] / 4;
    if (n == 0) return;
    if (!step.has_slot || step.page_offset >= n) {
      blocks = 0;  // nowhere
      return;
    }
    pages = args.ptr<const std::uint32_t>(cluster_pages) + step.page_offset;
    n_pages = static_cast<std::uint32_t>(min(n - step.page_offset, std::uint64_t{~0u}));
  }
  __device__ __forceinline__ std::uint32_t row(std::uint32_t position) const {
    std::uint32_t in = block, at = position;
    if (pages != nullptr) {
      if (position / device_page_positions >= n_pages) return no_row;
      in = pages[position / device_page_positions];
      at = position % device_page_positions;
    } else if (ring) {
      at = position % capacity;
    }
    return in < blocks && at < capacity ? (in * heads + head) * capacity + at : no_row;
  }
};

// Rows of the caches on their way to a tile; where a lane's row is no_row, zeros. Lane r < 16
// brings the row of key r.
template <int Dim>
__device__ __forceinline__ void load_tile(const Half* k, const Half* v, std::uint32_t row,
                                          ClusterTile<Dim>& tile) {
  constexpr int chunks = Dim / 8, rows_at_once = 32 / chunks, steps = 16 / rows_at_once;
  const std::uint32_t lane = threadIdx.x % 32, chunk = lane % chunks;
#pragma unroll
  for (int i = 0; i < steps; ++i) {
    const std::uint32_t r = i * rows_at_once + lane / chunks;
    const std::uint32_t from = __shfl_sync(0xffffffffu, row, static_cast<int>(r));
    const std::uint32_t size = from != no_row ? 16 : 0;
    const std::uint64_t at = from != no_row ? std::uint64_t{from} * Dim + 8 * chunk : 0;
    async_copy<16>(&tile.keys[r][8 * chunk], k + at, size);
    async_copy<16>(&tile.values[r][8 * chunk], v + at, size);
  }
}

// What a warp has of the result of query lane / 4.
template <int Dim>
struct ClusterSums {
  float top = -INFINITY, sum = 0.0f;  // sum: of this lane's keys
  float acc[Dim / 64][8][4] = {};

  // Weights of the tile's keys, and room for them in what is there. seen: bits of keys.
  __device__ __forceinline__ void weigh(const AttentionParams& p, std::uint32_t seen,
                                        float (&s)[2][2], std::uint32_t (&weights)[4]) {
    const std::uint32_t mine = seen >> 2 * (threadIdx.x % 4);
    float highest = top;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        s[j][i] = (mine >> (8 * j + i) & 1) != 0 ? finish_score(p, s[j][i]) : -INFINITY;
        highest = fmaxf(highest, s[j][i]);
      }
    }
    highest = max_over_4(highest);
    const float base = highest > -INFINITY ? highest : 0.0f;
    const float kept = exp2_approx(top - base);
    top = highest;
    sum *= kept;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        s[j][i] = exp2_approx(s[j][i] - base);
        sum += s[j][i];
      }
    }
    if (__any_sync(0xffffffffu, kept != 1.0f)) {
#pragma unroll
      for (int c = 0; c < Dim / 64; ++c) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) acc[c][j][i] *= kept;
        }
      }
    }
    weight_fragments(s, weights);
  }
  // As ValueFragments::add says where elements are.
  __device__ __forceinline__ void store(float* values) const {
    const std::uint32_t t = threadIdx.x % 4;
#pragma unroll
    for (int c = 0; c < Dim / 64; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
          const auto value = [&](int i) {
            return (acc[c][j + i][half] + acc[c][j + i][half + 2]) * (1.0f / weight_unit);
          };
          *reinterpret_cast<float4*>(values + 64 * c + 16 * t + 8 * half + j) =
              make_float4(value(0), value(1), value(2), value(3));
        }
      }
    }
  }
};

// Of `parts` parts with maxima top(i): where they are measured from.
template <int Parts, class Top>
__device__ __forceinline__ float common_base(const Top& top_of, float& top) {
  top = -INFINITY;
#pragma unroll
  for (int i = 0; i < Parts; ++i) top = fmaxf(top, top_of(i));
  return top > -INFINITY ? top : 0.0f;
}

template <int Dim>
__device__ __forceinline__ void attend_cluster(const CudaArgs& args) {
  constexpr int pairs = Dim / 64;
  constexpr std::uint32_t warps = cluster_threads / 32, all_warps = warps * cluster_blocks;
  constexpr std::uint32_t key_warp = warps - 1, value_warp = warps - 2;
  auto& m = *reinterpret_cast<ClusterMemory<Dim>*>(dynamic_shared());
  pdl_launch();
  const RopeAttentionParams& params = args.params_as<RopeAttentionParams>();
  const RopeAngles& angles = params.store.angles;
  const AttentionParams p = attention_params(params);
  const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, rank = cluster_rank();
  const std::uint32_t kv_head = blockIdx.x, group = p.heads / p.kv_heads;
  const std::uint32_t first_head = kv_head * group;

  // The step and the keys that were there before this pass.
  const StepEntry step = read_step(args.views[cluster_step], args.bytes[cluster_step], 1, 0);
  const RowKeys keys = row_keys(p, attention_places(args, p, cluster_pages), step);
  const ClusterPlaces places(args, params.store, step);
  const auto begin = static_cast<std::uint32_t>(keys.begin);
  const auto end = static_cast<std::uint32_t>(min(keys.end, std::uint64_t{~0u} - tile_keys));
  const std::uint32_t begin_tile = begin / tile_keys;
  const std::uint32_t end_tile = begin < end ? (end + tile_keys - 1) / tile_keys : begin_tile;
  const std::uint32_t first_tile =
      begin_tile + (rank + cluster_blocks * warp + all_warps - begin_tile % all_warps) % all_warps;
  // Lane r: the row of key r % 16 of a tile, no_row where it does not count.
  const auto row_of = [&](std::uint32_t tile) {
    const std::uint32_t position = tile * tile_keys + lane % tile_keys;
    return position >= begin && position < end ? places.row(position) : no_row;
  };
  auto& tiles = m.warp[warp].tiles;
  const auto ask_for = [&](std::uint32_t tile, std::uint32_t stage) {
    if (tile < end_tile) {
      const bool is_new = tile * tile_keys + lane % tile_keys == step.position;
      load_tile<Dim>(args.ptr<const Half>(cluster_k_cache), args.ptr<const Half>(cluster_v_cache),
                     is_new ? no_row : row_of(tile), tiles[stage]);
    }
    async_commit();
  };
  if (step.active) {
#pragma unroll 1
    for (std::uint32_t i = 0; i < cluster_stages; ++i) ask_for(first_tile + i * all_warps, i);
  }
  CosSin turns[pairs];
#pragma unroll
  for (int j = 0; j < pairs; ++j) {
    const double frequency =
        turns_per_position(angles, lane + 32 * j, args.ptr<const float>(cluster_factors));
    turns[j] = rotation(angles, frequency, step.position);
  }
  const auto* q_norm = args.ptr<const float>(cluster_q_norm);
  const auto* k_norm = args.ptr<const float>(cluster_k_norm);
  HeadPairs<pairs> weights;
  if (q_norm != nullptr) weights.load(angles, q_norm);
  pdl_wait();
  if (!step.active) return;

#pragma unroll 1
  for (std::uint32_t query = warp; query < group; query += warps) {
    HeadPairs<pairs> head;
    head.load(angles, args.ptr<const float>(cluster_q) + (first_head + query) * Dim);
    if (q_norm != nullptr) head.scale(weights, params.store.q_eps);
    head.turn(turns);
    head.store(angles, [&](std::uint32_t e, float x) { m.queries[query][e] = x; });
  }
  if (rank == step.position / tile_keys % cluster_blocks) {
    const std::uint32_t row = places.row(step.position);
    if (row != no_row && warp == key_warp) {
      HeadPairs<pairs> head;
      head.load(angles, args.ptr<const float>(cluster_k) + kv_head * Dim);
      if (k_norm != nullptr) {
        weights.load(angles, k_norm);
        head.scale(weights, params.store.k_eps);
      }
      head.turn(turns);
      Half* to = args.ptr<Half>(cluster_k_cache) + std::uint64_t{row} * Dim;
      head.store(angles, [&](std::uint32_t e, float x) {
        const Half rounded = round_to<Half>(x);
        to[e] = rounded;
        m.key[e] = rounded.bits;
      });
    }
    if (row != no_row && warp == value_warp) {
      Half* to = args.ptr<Half>(cluster_v_cache) + std::uint64_t{row} * Dim;
#pragma unroll
      for (int j = 0; j < Dim / 32; ++j) {
        const std::uint32_t e = lane + 32 * j;
        const Half rounded = round_to<Half>(args.ptr<const float>(cluster_v)[kv_head * Dim + e]);
        to[e] = rounded;
        m.value[e] = rounded.bits;
      }
    }
  }
  __syncthreads();

  const std::uint32_t g = lane / 4;
  ClusterSums<Dim> sums;
  if (first_tile < end_tile) {
    QueryFragments<Dim> fragments;
    fragments.load(g < group ? m.queries[g] : nullptr);
    std::uint32_t stage = 0;
#pragma unroll 1
    for (std::uint32_t tile = first_tile; tile < end_tile; tile += all_warps) {
      async_wait<cluster_stages - 1>();
      __syncwarp();
      ClusterTile<Dim>& here = tiles[stage];
      if (tile == step.position / tile_keys) {
        const std::uint32_t r = step.position % tile_keys;
        for (std::uint32_t i = lane; i < Dim; i += 32) {
          here.keys[r][i] = m.key[i];
          here.values[r][i] = m.value[i];
        }
        __syncwarp();
      }
      const std::uint32_t seen = __ballot_sync(0xffffffffu, row_of(tile) != no_row);
      float s[2][2];
      std::uint32_t parts[4];
      KeyFragments<Dim> fragment;
      read_keys(here, fragment);
      fragment.products(fragments, s);
      sums.weigh(p, seen, s, parts);
#pragma unroll
      for (int c = 0; c < Dim / 64; ++c) {
        ValueFragments values;
        read_values(here, c, values);
        values.add(parts, sums.acc[c]);
      }
      __syncwarp();
      ask_for(tile + cluster_stages * all_warps, stage);
      stage = stage + 1 == cluster_stages ? 0 : stage + 1;
    }
    async_wait<0>();
    __syncwarp();
    if (g < group) sums.store(m.warp[warp].values[g]);
  }
  sums.sum = sum_over_4(sums.sum);
  if (lane % 4 == 0) {
    m.top[warp][g] = sums.top;
    m.sum[warp][g] = sums.sum;
  }
  __syncthreads();

  // The block's share of the result, where the queries were.
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < group * Dim; i += cluster_threads) {
    const std::uint32_t query = i / Dim, e = i % Dim;
    float top, total = 0.0f, y = 0.0f;
    const float base = common_base<warps>([&](int w) { return m.top[w][query]; }, top);
#pragma unroll
    for (int w = 0; w < static_cast<int>(warps); ++w) {
      if (!(m.top[w][query] > -INFINITY)) continue;
      const float weight = exp2_approx(m.top[w][query] - base);
      y = fmaf(m.warp[w].values[query][e], weight, y);
      total = fmaf(m.sum[w][query], weight, total);
    }
    m.queries[query][e] = y;
    if (e == 0) {
      m.tops[query] = top;
      m.sums[query] = total;
    }
  }
  cluster_barrier();

  // 32 values of the row by a warp, from all blocks.
  const auto* sinks = args.ptr<const float>(cluster_sinks);
#pragma unroll 1
  for (std::uint32_t i = rank + cluster_blocks * warp; i < group * Dim / 32; i += all_warps) {
    const std::uint32_t query = i / (Dim / 32), e = i % (Dim / 32) * 32 + lane;
    float tops[cluster_blocks], totals[cluster_blocks], ys[cluster_blocks];
#pragma unroll
    for (int b = 0; b < static_cast<int>(cluster_blocks); ++b) {
      tops[b] = *cluster_peer(&m.tops[query], b);
      totals[b] = *cluster_peer(&m.sums[query], b);
      ys[b] = *cluster_peer(&m.queries[query][e], b);
    }
    float top, total = 0.0f, y = 0.0f;
    const float base = common_base<cluster_blocks>([&](int b) { return tops[b]; }, top);
#pragma unroll
    for (int b = 0; b < static_cast<int>(cluster_blocks); ++b) {
      const float weight = exp2_approx(tops[b] - base);
      y = fmaf(ys[b], weight, y);
      total = fmaf(totals[b], weight, total);
    }
    const Ending ending =
        with_sink(top, total, sinks != nullptr ? sinks + first_head + query : nullptr);
    store_q8a_1(args.ptr<std::uint8_t>(cluster_out), std::uint64_t{p.heads} * Dim,
                (std::uint64_t{first_head} * Dim) / 32 + i,
                ending.total == 0.0f ? 0.0f : y * ending.factor / ending.total);
  }
  cluster_barrier();  // until nobody reads from here
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_ATTENTION_CUDA_CLUSTER_CUH_
