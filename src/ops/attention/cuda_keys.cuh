// Which keys a row sees and where they are, and fragments of f16 rows for the tensor cores.
#ifndef ONEPASS_OPS_ATTENTION_CUDA_KEYS_CUH_
#define ONEPASS_OPS_ATTENTION_CUDA_KEYS_CUH_

#include "backends/cuda/args.h"
#include "ops/attention/params.h"
#include "ops/shared/cuda_cache.cuh"

namespace onepass::ops {

inline constexpr float log2_e = 1.44269504f;

// Positions [begin, end) of a slot.
struct RowKeys {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t slot = 0, page_offset = 0;
  bool active = true;  // false: the row is not part of this pass
};

__device__ inline DevicePlaces attention_places(const CudaArgs& args, const AttentionParams& p,
                                                int pages = 4) {
  const std::uint64_t n_pages = args.bytes[pages] / 4;
  return DevicePlaces{p.slots,
                      p.kv_heads,
                      p.capacity,
                      p.ring != 0,
                      n_pages != 0 ? args.ptr<const std::uint32_t>(pages) : nullptr,
                      n_pages};
}

// As visible_keys of launch_tiling.h, for a row with a step.
__device__ inline RowKeys row_keys(const AttentionParams& p, const DevicePlaces& places,
                                   std::uint64_t position, std::uint64_t length, RowKeys keys) {
  length = min(length, places.reach(keys.page_offset));
  keys.end = p.causal != 0 ? min(position + 1, length) : length;
  if (p.window != 0 && position + 1 > p.window) keys.begin = position + 1 - p.window;
  if (p.ring != 0 && length > p.capacity) keys.begin = max(keys.begin, length - p.capacity);
  keys.begin = min(keys.begin, keys.end);
  return keys;
}
__device__ inline RowKeys row_keys(const AttentionParams& p, const DevicePlaces& places,
                                   const StepEntry& step) {
  RowKeys keys;
  keys.active = step.active;
  if (!step.has_slot || (places.pages == nullptr && step.slot >= p.slots)) return keys;
  keys.slot = step.slot;
  keys.page_offset = step.page_offset;
  return row_keys(p, places, step.position, step.kv_length, keys);
}
__device__ inline RowKeys row_keys(const CudaArgs& args, const AttentionParams& p,
                                   const DevicePlaces& places, std::uint32_t row) {
  if (p.has_step != 0) {
    return row_keys(p, places, read_step(args.views[3], args.bytes[3], p.rows, row));
  }
  return row_keys(p, places, std::uint64_t{p.kv_len} - p.rows + row, p.kv_len, RowKeys());
}

__device__ __noinline__ inline float capped_score(float s, float cap) { return op_softcap(s, cap); }

// A score in units of log2 e: scaled, capped.
__device__ inline float finish_score(const AttentionParams& p, float product) {
  float s = product * p.scale;
  if (p.softcap != 0.0f) s = capped_score(s, p.softcap);
  return s * log2_e;
}

// 8 halves; wide: the address is a multiple of 16.
__device__ inline uint4 load_halves_8(const Half* p, bool wide) {
  if (wide) return *reinterpret_cast<const uint4*>(p);
  const auto both = [p](int i) {
    return std::uint32_t{p[i].bits} | std::uint32_t{p[i + 1].bits} << 16;
  };
  return make_uint4(both(0), both(2), both(4), both(6));
}

__device__ inline std::uint32_t pack_halves(float a, float b) {
  return float_to_half_bits(a) | float_to_half_bits(b) << 16;
}
// What f16 loses of a and b.
__device__ inline std::uint32_t pack_rests(float a, float b, std::uint32_t packed) {
  return pack_halves(a - half_bits_to_float(packed & 0xffffu),
                     b - half_bits_to_float(packed >> 16));
}

// Up to 8 queries as the left operand of tensor core products: rows 0 to 7 are f16 numbers, rows 8
// to 15 what these lose, so that products are as good as with f32. Lane 4 g + t holds of query g
// the elements 32 i + 8 t .. + 8 in steps 2 i and 2 i + 1; other operands lie the same way.
template <int Dim>
struct QueryFragments {
  std::uint32_t a[Dim / 16][4];
  float unit;  // the query was divided by this power of two

  // q: of the lane's query; null: none.
  __device__ void load(const float* q) {
    const std::uint32_t t = threadIdx.x % 4;
    float x[Dim / 32][8];
    std::uint32_t top = 0;
#pragma unroll
    for (int i = 0; i < Dim / 32; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        x[i][j] = q != nullptr ? q[32 * i + 8 * t + j] : 0.0f;
        top = max(top, magnitude_bits(x[i][j]));
      }
    }
    top = max(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = max(top, __shfl_xor_sync(0xffffffffu, top, 2));
    const std::uint32_t exponent = min(max(top >> 23, 1u), 253u);
    unit = __uint_as_float(exponent << 23);
    const float inverse = __uint_as_float((254 - exponent) << 23);
#pragma unroll
    for (int i = 0; i < Dim / 32; ++i) {
#pragma unroll
      for (int j = 0; j < 8; ++j) x[i][j] *= inverse;
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        std::uint32_t(&r)[4] = a[2 * i + s];
        r[0] = pack_halves(x[i][4 * s], x[i][4 * s + 1]);
        r[1] = pack_rests(x[i][4 * s], x[i][4 * s + 1], r[0]);
        r[2] = pack_halves(x[i][4 * s + 2], x[i][4 * s + 3]);
        r[3] = pack_rests(x[i][4 * s + 2], x[i][4 * s + 3], r[2]);
      }
    }
  }
};

// A row of the cache for each of the keys a lane loads; null: the key is not there or not seen.
struct KeyFinder {
  DevicePlaces places;
  std::uint32_t slot, page_offset, head;
  std::uint64_t begin, end;  // positions that count

  __device__ const Half* find(const Half* cache, std::uint32_t dim, std::uint64_t position) const {
    std::uint64_t row;
    if (position < begin || position >= end) return nullptr;
    if (!places.find(slot, page_offset, head, position, row)) return nullptr;
    return cache + row * dim;
  }
};

// 16 keys from `first` as the right operand: n-tile j holds keys first + 8 j + lane / 4.
template <int Dim>
struct KeyFragments {
  uint4 k[2][Dim / 32];

  __device__ void load(const KeyFinder& finder, const Half* cache, std::uint64_t first, bool wide) {
    const std::uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const Half* row = finder.find(cache, Dim, first + 8 * j + g);
#pragma unroll
      for (int i = 0; i < Dim / 32; ++i) {
        k[j][i] = make_uint4(0, 0, 0, 0);
        if (row != nullptr) k[j][i] = load_halves_8(row + 32 * i + 8 * t, wide);
      }
    }
  }

  // Products of query lane / 4 with keys 8 j + 2 (lane % 4) and the next, j = 0, 1.
  __device__ void products(const QueryFragments<Dim>& q, float (&s)[2][2]) const {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int i = 0; i < Dim / 32; ++i) {
        const std::uint32_t b0[2] = {k[j][i].x, k[j][i].y}, b1[2] = {k[j][i].z, k[j][i].w};
        mma_f16_k16(c, q.a[2 * i], b0);
        mma_f16_k16(c, q.a[2 * i + 1], b1);
      }
      s[j][0] = (c[0] + c[2]) * q.unit;
      s[j][1] = (c[1] + c[3]) * q.unit;
    }
  }
};

// Weights times this keep 22 bits in two f16 numbers down to 2^-14.
inline constexpr float weight_unit = 16384.0f;

// Weights of 16 keys as the left operand.
__device__ inline void weight_fragments(const float (&w)[2][2], std::uint32_t (&a)[4]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float x = w[j][0] * weight_unit, y = w[j][1] * weight_unit;
    a[2 * j] = pack_halves(x, y);
    a[2 * j + 1] = pack_rests(x, y, a[2 * j]);
  }
}

// Values of 16 keys, 64 elements of the head from 64 c.
struct ValueFragments {
  uint4 v[4];  // keys 2 t, 2 t + 1, 8 + 2 t, 8 + 2 t + 1; elements 8 g .. + 8

  __device__ void load(const Half* const (&rows)[4], std::uint32_t c, bool wide) {
    const std::uint32_t g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[i] = make_uint4(0, 0, 0, 0);
      if (rows[i] != nullptr) v[i] = load_halves_8(rows[i] + 64 * c + 8 * g, wide);
    }
  }
  // acc[j]: elements 64 c + 16 t + j of query g in 0 and 2, those 8 further in 1 and 3.
  __device__ void add(const std::uint32_t (&weights)[4], float (&acc)[8][4]) const {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const auto word = [&](const uint4& x) {
        return j / 2 == 0 ? x.x : j / 2 == 1 ? x.y : j / 2 == 2 ? x.z : x.w;
      };
      const unsigned pick = j % 2 == 0 ? 0x5410 : 0x7632;
      const std::uint32_t b[2] = {__byte_perm(word(v[0]), word(v[1]), pick),
                                  __byte_perm(word(v[2]), word(v[3]), pick)};
      mma_f16_k16(acc[j], weights, b);
    }
  }
};

// Rows of the values a lane loads of the 16 keys from `first`.
__device__ inline void value_rows(const KeyFinder& finder, const Half* cache, std::uint32_t dim,
                                  std::uint64_t first, const Half* (&rows)[4]) {
  const std::uint32_t t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    rows[i] = finder.find(cache, dim, first + 8 * (i / 2) + 2 * t + i % 2);
  }
}

__device__ inline float max_over_4(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float sum_over_4(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// The factor of values, and the sum they are divided by, with the sink as one more score without
// a value. top and sum are those of the keys; sink in units of log2 e.
struct Ending {
  float factor, total;
};
__device__ inline Ending with_sink(float top, float sum, const float* sink) {
  if (sink == nullptr) return {1.0f, sum};
  const float s = *sink * log2_e, highest = fmaxf(top, s);
  const float base = highest > -INFINITY ? highest : 0.0f;
  const float factor = exp2f(top - base);
  return {factor, sum * factor + exp2f(s - base)};
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_ATTENTION_CUDA_KEYS_CUH_
