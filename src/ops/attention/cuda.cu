// Attention: what the variants are made of.
#include "ops/attention/cuda_rows.cuh"
#include "ops/attention/cuda_split.cuh"

namespace onepass::ops {
namespace {

// f16 keys and values: a warp has 16 keys of the chunk and uses the tensor cores.
template <int Dim>
struct HalfChunk {
  static constexpr int slots = split_threads / 32;
  static constexpr int outputs = split_queries * Dim / split_threads;
  static_assert(slots * 16 == split_keys);

  static constexpr bool prefetches = true;

  QueryFragments<Dim> q;
  bool k_wide, v_wide;

  // Positions [begin, end) into L2.
  __device__ static void prefetch(const SplitBlock& b, const DevicePlaces& places,
                                  std::uint32_t slot, std::uint64_t begin, std::uint64_t end) {
    std::uint64_t row;
    if (begin >= end || end > places.capacity) return;
    if (!places.find(slot, 0, b.kv_head, begin, row)) return;
    const auto bytes = static_cast<std::uint32_t>((end - begin) * Dim * sizeof(Half));
    for (int view = 1; view <= 2; ++view) {
      if (is_aligned_16(b.args.views[view]))
        prefetch_l2(b.args.ptr<const Half>(view) + row * Dim, bytes);
    }
  }

  __device__ explicit HalfChunk(const SplitBlock& b) {
    const std::uint32_t g = threadIdx.x % 32 / 4;
    const std::uint64_t at = (std::uint64_t{b.row} * b.p.heads + b.first_head + g) * Dim;
    q.load(g < b.n_queries ? b.args.ptr<const float>(0) + at : nullptr);
    k_wide = is_aligned_16(b.args.views[1]);
    v_wide = is_aligned_16(b.args.views[2]);
  }

  __device__ void attend(const SplitBlock& b, SplitMemory& m, const KeyFinder& finder,
                         std::uint64_t first) {
    const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4,
                        t = lane % 4;
    first += 16 * warp;
    KeyFragments<Dim> keys;
    keys.load(finder, b.args.ptr<const Half>(1), first, k_wide);
    const Half* rows[4];
    value_rows(finder, b.args.ptr<const Half>(2), Dim, first, rows);
    ValueFragments values[Dim / 64];
#pragma unroll
    for (int c = 0; c < Dim / 64; ++c) values[c].load(rows, c, v_wide);

    float s[2][2];
    keys.products(q, s);
    float top = -INFINITY;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        s[j][i] = rows[2 * j + i] != nullptr ? finish_score(b.p, s[j][i]) : -INFINITY;
        top = fmaxf(top, s[j][i]);
      }
    }
    top = max_over_4(top);
    const float base = top > -INFINITY ? top : 0.0f;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        s[j][i] = exp2_approx(s[j][i] - base);
        sum += s[j][i];
      }
    }
    sum = sum_over_4(sum);
    if (t == 0) {
      m.top[warp][g] = top;
      m.sum[warp][g] = sum;
    }
    std::uint32_t weights[4];
    weight_fragments(s, weights);
#pragma unroll
    for (int c = 0; c < Dim / 64; ++c) {
      float acc[8][4] = {};
      values[c].add(weights, acc);
      if (g >= b.n_queries) continue;
      float* to = b.slot_values(warp, g) + 64 * c + 16 * t;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
          const auto value = [&](int i) {
            return (acc[j + i][half] + acc[j + i][half + 2]) * (1.0f / weight_unit);
          };
          *reinterpret_cast<float4*>(to + 8 * half + j) =
              make_float4(value(0), value(1), value(2), value(3));
        }
      }
    }
  }
};

// Element e of a row of the cache.
__device__ inline float cached(const std::uint8_t* row, std::uint32_t e, DType type) {
  if (type == DType::f16) return as_float(reinterpret_cast<const Half*>(row)[e]);
  if (type == DType::f32) return reinterpret_cast<const float*>(row)[e];
  const std::uint8_t* block = row + 34 * (e / 32);
  const float d = half_bits_to_float(*reinterpret_cast<const std::uint16_t*>(block));
  return static_cast<float>(static_cast<signed char>(block[2 + e % 32])) * d;
}

// Any types and any head: a warp per key, then a thread per element of the head.
template <DType KeyType>
struct PlainChunk {
  static constexpr bool prefetches = false;
  static constexpr int slots = 1;
  static constexpr int outputs = split_queries * max_split_dim / split_threads;

  float* queries;  // [n_queries][head_dim]
  float* weights;  // [n_queries][split_keys]

  __device__ explicit PlainChunk(const SplitBlock& b) {
    queries = b.values + b.n_queries * split_stride(b.p.head_dim);
    weights = queries + b.n_queries * b.p.head_dim;
    const std::uint64_t at = (std::uint64_t{b.row} * b.p.heads + b.first_head) * b.p.head_dim;
    for (std::uint32_t i = threadIdx.x; i < b.n_queries * b.p.head_dim; i += split_threads) {
      queries[i] = b.args.ptr<const float>(0)[at + i];
    }
    __syncthreads();
  }

  __device__ void attend(const SplitBlock& b, SplitMemory& m, const KeyFinder& finder,
                         std::uint64_t first) {
    const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = b.p.head_dim;
    const auto place = [&](std::uint32_t i, std::uint64_t& row) {
      const std::uint64_t position = first + i;
      return position >= finder.begin && position < finder.end &&
             finder.places.find(finder.slot, finder.page_offset, finder.head, position, row);
    };
    const std::uint64_t key_bytes = device_cache_row_bytes(KeyType, dim);
    for (std::uint32_t i = warp; i < split_keys; i += split_threads / 32) {
      std::uint64_t at;
      float dots[split_queries];
      const bool seen = place(i, at);
#pragma unroll
      for (std::uint32_t q = 0; q < split_queries; ++q) dots[q] = 0.0f;
      if (seen) {
        const std::uint8_t* row = b.args.ptr<const std::uint8_t>(1) + at * key_bytes;
        for (std::uint32_t e = lane; e < dim; e += 32) {
          const float x = cached(row, e, KeyType);
#pragma unroll
          for (std::uint32_t q = 0; q < split_queries; ++q) {
            if (q < b.n_queries) dots[q] = fmaf(queries[q * dim + e], x, dots[q]);
          }
        }
      }
#pragma unroll
      for (std::uint32_t q = 0; q < split_queries; ++q) {
        if (q >= b.n_queries) break;
        const float dot = warp_sum(dots[q]);
        if (lane == 0) weights[q * split_keys + i] = seen ? finish_score(b.p, dot) : -INFINITY;
      }
    }
    __syncthreads();
    if (warp < b.n_queries) {
      float* w = weights + warp * split_keys;
      float top = -INFINITY, sum = 0.0f;
      for (std::uint32_t i = lane; i < split_keys; i += 32) top = fmaxf(top, w[i]);
#pragma unroll
      for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
      const float base = top > -INFINITY ? top : 0.0f;
      for (std::uint32_t i = lane; i < split_keys; i += 32) {
        w[i] = exp2_approx(w[i] - base);
        sum += w[i];
      }
      sum = warp_sum(sum);
      if (lane == 0) {
        m.top[0][warp] = top;
        m.sum[0][warp] = sum;
      }
    }
    __syncthreads();
    const DType value_type = static_cast<DType>(b.p.v_type);
    const std::uint64_t value_bytes = device_cache_row_bytes(value_type, dim);
    for (std::uint32_t e = threadIdx.x; e < dim; e += split_threads) {
      float acc[split_queries];
#pragma unroll
      for (std::uint32_t q = 0; q < split_queries; ++q) acc[q] = 0.0f;
      for (std::uint32_t i = 0; i < split_keys; ++i) {
        std::uint64_t at;
        if (!place(i, at)) continue;
        const float x = cached(b.args.ptr<const std::uint8_t>(2) + at * value_bytes, e, value_type);
#pragma unroll
        for (std::uint32_t q = 0; q < split_queries; ++q) {
          if (q < b.n_queries) acc[q] = fmaf(weights[q * split_keys + i], x, acc[q]);
        }
      }
#pragma unroll
      for (std::uint32_t q = 0; q < split_queries; ++q) {
        if (q < b.n_queries) b.slot_values(0, q)[e] = acc[q];
      }
    }
  }
};

}  // namespace
}  // namespace onepass::ops

#define SPLIT_KERNEL(name, blocks, quantized, ...)           \
  extern "C" __global__ void __launch_bounds__(256, blocks)  \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    using namespace onepass;                                 \
    ops::attend_row<ops::__VA_ARGS__, quantized>(args);      \
  }
#define SPLIT_KERNELS(suffix, blocks, ...)                     \
  SPLIT_KERNEL(attention_##suffix, blocks, false, __VA_ARGS__) \
  SPLIT_KERNEL(attention_q_##suffix, blocks, true, __VA_ARGS__)

SPLIT_KERNELS(f16_64, 2, HalfChunk<64>)
SPLIT_KERNELS(f16_128, 2, HalfChunk<128>)
SPLIT_KERNELS(f16_256, 1, HalfChunk<256>)
SPLIT_KERNELS(f32, 1, PlainChunk<DType::f32>)
SPLIT_KERNELS(f16, 1, PlainChunk<DType::f16>)
SPLIT_KERNELS(q8_0, 1, PlainChunk<DType::q8_0>)

#define ROWS_KERNEL(name, dim, quantized)                    \
  extern "C" __global__ void __launch_bounds__(128)          \
      name(const __grid_constant__ onepass::CudaArgs args) { \
    onepass::ops::attend_rows<dim, quantized>(args);         \
  }

ROWS_KERNEL(attention_rows_f16_64, 64, false)
ROWS_KERNEL(attention_rows_f16_128, 128, false)
ROWS_KERNEL(attention_q_rows_f16_64, 64, true)
ROWS_KERNEL(attention_q_rows_f16_128, 128, true)
