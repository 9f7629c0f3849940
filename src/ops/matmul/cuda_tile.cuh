// Products of many rows of x, quantized, with quantized weights on the tensor cores. A block
// computes WarpsM * 32 rows times WarpsN * 64 weight rows, a warp 32 times 64 of them, in steps of
// 64 values of k. Numbers travel through a ring of three stages in shared memory as they are stored
// and become signed bytes in registers; integer sums of 32 values (q6_k: 16) are scaled into f32.
//
// With a gate, the 64 weight rows of a warp are 32 of the gate and the same 32 of up.
#ifndef ONEPASS_OPS_MATMUL_CUDA_TILE_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_TILE_CUH_

#include <type_traits>

#include "ops/matmul/cuda_forms.cuh"
#include "ops/matmul/cuda_tile_out.cuh"

namespace onepass::ops {

constexpr std::uint32_t tile_k = 64, tile_stages = 3;
// Bytes of a row of x in a stage: its numbers and padding, so that the rows of a load fall into
// different banks.
constexpr std::uint32_t tile_x_stride = tile_k + 16;

// 1.5 * 2^23: an integer below 2^22 added to its bits is that number added to the float.
constexpr int tile_magic_bits = 0x4b400000;
constexpr float tile_magic = 12582912.0f;

// How a form's weights lie in a stage and become operands:
//   stride             bytes of a row's numbers with padding, a multiple of 16
//   number_bytes       bytes of them that are copied, a multiple of 16
//   high_bytes         bytes of a row's further bits (0, 8 or 16)
//   sub                scales per 32 values: 1, or 2 of 16 values
//   has_minimum        whether something is added per 32 values, times their sum in x
//   zero               what is added to each number, times x: the sum is started with it
template <int NumberBits, int HighBytes, int Sub, bool HasMinimum, int Zero>
struct TileTraits {
  static constexpr std::uint32_t number_bytes = tile_k * NumberBits / 8;
  static constexpr std::uint32_t stride = number_bytes + 16, high_bytes = HighBytes;
  static constexpr int bits = NumberBits, sub = Sub, zero = Zero;
  static constexpr bool has_minimum = HasMinimum;
};
template <class F>
struct TileForm;
template <>
struct TileForm<Q4_0Form> : TileTraits<4, 0, 1, false, -8> {};
template <>
struct TileForm<Q8_0Form> : TileTraits<8, 0, 1, false, 0> {};
template <>
struct TileForm<Q4_KForm> : TileTraits<4, 0, 1, true, 0> {};
template <>
struct TileForm<Q5_KForm> : TileTraits<4, 8, 1, true, 0> {};
template <>
struct TileForm<Q6_KForm> : TileTraits<4, 16, 2, false, -32> {};
template <>
struct TileForm<A4F16Form> : TileTraits<4, 0, 1, true, 0> {};
template <>
struct TileForm<A4BF16Form> : TileTraits<4, 0, 1, true, 0> {};
template <>
struct TileForm<A8F16Form> : TileTraits<8, 0, 1, true, 128> {};
template <>
struct TileForm<A8BF16Form> : TileTraits<8, 0, 1, true, 128> {};

// Scales of 32 values of a weight row: as they are stored, and in f32.
struct TileScales {
  std::uint32_t a, b;
};
struct TileFactors {
  float scale[2];  // of both halves
  float added;     // per 32 values, times their sum in x
};

// b: block of 32 values of the row.
template <class F>
__device__ __forceinline__ TileScales load_scales(const std::uint8_t* group, std::uint32_t r,
                                                  std::uint32_t k, std::uint32_t b) {
  using Split = typename F::Split;
  TileScales s{};
  if constexpr (std::is_same_v<F, Q4_0Form> || std::is_same_v<F, Q8_0Form>) {
    s.a = load_half(group + Split::scales(k, r) + 2 * b);
  } else if constexpr (std::is_same_v<F, Q4_KForm> || std::is_same_v<F, Q5_KForm>) {
    s.a = load_half(group + Split::scales(k, r) + 2 * b);
    s.b = load_word(group + Split::d(k, r) + b / 8 * 4);
  } else if constexpr (std::is_same_v<F, Q6_KForm>) {
    s.a = load_half(group + Split::scales(k, r) + 2 * b);
    s.b = load_half(group + Split::d(k, r) + b / 8 * 2);
  } else {
    s.a = load_word(group + Split::scales(k, r) + b / 2 * 4);
  }
  return s;
}
template <class F>
__device__ __forceinline__ TileFactors factors_of(const TileScales& s) {
  TileFactors f{};
  if constexpr (std::is_same_v<F, Q4_0Form> || std::is_same_v<F, Q8_0Form>) {
    f.scale[0] = half_bits(s.a);
  } else if constexpr (std::is_same_v<F, Q4_KForm> || std::is_same_v<F, Q5_KForm>) {
    f.scale[0] = half_bits(s.b & 0xffffu) * static_cast<float>(s.a & 255u);
    f.added = -(half_bits(s.b >> 16) * static_cast<float>(s.a >> 8));
  } else if constexpr (std::is_same_v<F, Q6_KForm>) {
    const float d = half_bits(s.b);
    f.scale[0] = d * static_cast<float>(static_cast<signed char>(s.a & 255u));
    f.scale[1] = d * static_cast<float>(static_cast<signed char>(s.a >> 8));
  } else {
    f.scale[0] = F::to_float(s.a & 0xffffu);
    f.added = F::to_float(s.a >> 16);
  }
  return f;
}

template <class F, int WarpsM, int WarpsN>
struct Tile : TileOut<WarpsM, WarpsN> {
  using Out = TileOut<WarpsM, WarpsN>;
  using Out::first_m, Out::k, Out::m, Out::rows_m, Out::rows_n, Out::threads;
  using T = TileForm<F>;
  using Split = typename F::Split;
  // A stage: x numbers, x scales and sums, weight numbers, their further bits.
  static constexpr std::uint32_t tails_at = rows_m * tile_x_stride;
  static constexpr std::uint32_t numbers_at = tails_at + rows_m * 16;
  static constexpr std::uint32_t high_at = numbers_at + rows_n * T::stride;
  static constexpr std::uint32_t stage_bytes = high_at + rows_n * T::high_bytes;
  // Factors of two steps, [2][tile_k / 32][rows_n] of each kind.
  static constexpr std::uint32_t kinds = T::sub + (T::has_minimum ? 1 : 0);
  static constexpr std::uint32_t factors_at = tile_stages * stage_bytes;
  static constexpr std::uint32_t factor_floats = 2 * rows_n * kinds;  // of one step
  static constexpr std::uint32_t shared_bytes = factors_at + 2 * factor_floats * 4;
  static constexpr std::uint32_t scales_per_thread = 2 * rows_n / threads;
  static_assert(shared_bytes == matmul_tile_bytes(WarpsM, WarpsN, T::bits, T::high_bytes, kinds));

  unsigned char* shared;

  __device__ __forceinline__ void copy_weights(std::uint32_t step) const {
    unsigned char* stage = shared + step % tile_stages * stage_bytes;
    constexpr std::uint32_t chunks = T::number_bytes / 16;
#pragma unroll
    for (std::uint32_t c = threadIdx.x; c < rows_n * chunks; c += threads) {
      const std::uint32_t j = c / chunks, at = step * T::number_bytes + c % chunks * 16;
      const TileRow w = Out::weight_row(j);
      const bool inside = w.exists && at < k * T::bits / 8;
      const std::uint8_t* from = w.matrix;
      if (inside) {
        from = group_of<Split>(w.matrix, w.row, k) + Split::numbers(k, w.row % 16) + at;
      }
      async_copy<16>(stage + numbers_at + j * T::stride + c % chunks * 16, from, inside ? 16 : 0);
    }
    if constexpr (T::high_bytes > 0) {
      for (std::uint32_t j = threadIdx.x; j < rows_n; j += threads) {
        const TileRow w = Out::weight_row(j);
        const std::uint32_t at = step * T::high_bytes;
        const bool inside = w.exists && step * tile_k < k;
        const std::uint8_t* from = w.matrix;
        if (inside) {
          from = group_of<Split>(w.matrix, w.row, k) + Split::high(k, w.row % 16) + at;
        }
        async_copy<T::high_bytes>(stage + high_at + j * T::high_bytes, from,
                                  inside ? T::high_bytes : 0);
      }
    }
  }

  // x starts at a multiple of 8 bytes; wide: and its rows at multiples of 16.
  __device__ __forceinline__ void copy_x(const unsigned char* x, std::uint32_t step,
                                         bool wide) const {
    unsigned char* stage = shared + step % tile_stages * stage_bytes;
    const std::uint64_t row_bytes = k / 32 * 40;
#pragma unroll
    for (std::uint32_t c = threadIdx.x; c < rows_m * 5; c += threads) {
      // Chunks 0 .. 3 of a row are numbers, 4 its two pairs of scale and sums.
      const std::uint32_t r = c / 5, i = c % 5;
      const std::uint32_t left = k - (step * tile_k < k ? step * tile_k : k);  // values
      const std::uint32_t have = i < 4 ? (left > 16 * i ? left - 16 * i : 0) : left / 32 * 8;
      std::uint32_t size = have < 16 ? have : 16;
      const unsigned char* from = x;
      if (first_m + r >= m) size = 0;
      if (size > 0) {
        from += (first_m + r) * row_bytes +
                (i < 4 ? step * tile_k + 16 * i : k + step * (tile_k / 32) * 8);
      }
      unsigned char* to = i < 4 ? stage + r * tile_x_stride + 16 * i : stage + tails_at + 16 * r;
      if (wide) {
        async_copy<16>(to, from, size);
      } else {
        async_copy<8>(to, from, size < 8 ? size : 8);
        async_copy<8>(to + 8, size > 8 ? from + 8 : from, size > 8 ? size - 8 : 0);
      }
    }
  }

  __device__ __forceinline__ void load_factors(std::uint32_t step,
                                               TileScales (&s)[scales_per_thread]) const {
#pragma unroll
    for (std::uint32_t i = 0; i < scales_per_thread; ++i) {
      const std::uint32_t e = threadIdx.x + i * threads, j = e % rows_n;
      const std::uint32_t b = step * (tile_k / 32) + e / rows_n;
      const TileRow w = Out::weight_row(j);
      s[i] = TileScales{};
      if (w.exists && 32 * b < k) {
        s[i] = load_scales<F>(group_of<Split>(w.matrix, w.row, k), w.row % 16, k, b);
      }
    }
  }
  __device__ __forceinline__ float* factors(std::uint32_t step) const {
    return reinterpret_cast<float*>(shared + factors_at) + step % 2 * factor_floats;
  }
  __device__ __forceinline__ void store_factors(std::uint32_t step,
                                                const TileScales (&s)[scales_per_thread]) const {
    float* to = factors(step);
#pragma unroll
    for (std::uint32_t i = 0; i < scales_per_thread; ++i) {
      const std::uint32_t e = threadIdx.x + i * threads;  // [block of 32][row]
      const TileFactors f = factors_of<F>(s[i]);
      to[e] = f.scale[0];
      if constexpr (T::sub == 2) to[2 * rows_n + e] = f.scale[1];
      if constexpr (T::has_minimum) to[2 * rows_n * T::sub + e] = f.added;
    }
  }

  // One m16 x n8 product of 32 values, scaled into acc. a: both rows' values; s: both rows' sums.
  static __device__ __forceinline__ void multiply(const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2], const float (&dx)[2],
                                                  const int (&s)[2], const float2 (&dw)[2],
                                                  float (&acc)[4]) {
    if constexpr (T::sub == 1) {
      int sum[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sum[i] = tile_magic_bits + T::zero * (first_sum(s[i / 2]) + second_sum(s[i / 2]));
      }
      mma_s8_k32(sum, a, b);
      add(sum, dx, dw[0], acc);
    } else {
      int first[4], second[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        first[i] = tile_magic_bits + T::zero * first_sum(s[i / 2]);
        second[i] = tile_magic_bits + T::zero * second_sum(s[i / 2]);
      }
      const std::uint32_t a0[2] = {a[0], a[1]}, a1[2] = {a[2], a[3]};
      const std::uint32_t b0[1] = {b[0]}, b1[1] = {b[1]};
      mma_s8_k16(first, a0, b0);
      mma_s8_k16(second, a1, b1);
      add(first, dx, dw[0], acc);
      add(second, dx, dw[1], acc);
    }
  }
  static __device__ __forceinline__ void add(const int (&sum)[4], const float (&dx)[2], float2 dw,
                                             float (&acc)[4]) {
    acc[0] = fmaf(__int_as_float(sum[0]) - tile_magic, dx[0] * dw.x, acc[0]);
    acc[1] = fmaf(__int_as_float(sum[1]) - tile_magic, dx[0] * dw.y, acc[1]);
    acc[2] = fmaf(__int_as_float(sum[2]) - tile_magic, dx[1] * dw.x, acc[2]);
    acc[3] = fmaf(__int_as_float(sum[3]) - tile_magic, dx[1] * dw.y, acc[3]);
  }

  // Operand of a warp's weight rows 8 t .. 8 t + 7.
  __device__ __forceinline__ void load_b(const unsigned char* stage, std::uint32_t row,
                                         std::uint32_t block, std::uint32_t (&b)[2]) const {
    const std::uint32_t v = threadIdx.x % 4;
    const unsigned char* numbers = stage + numbers_at + row * T::stride;
    if constexpr (T::bits == 8) {
      b[0] = *reinterpret_cast<const std::uint32_t*>(numbers + 32 * block + 4 * v);
      b[1] = *reinterpret_cast<const std::uint32_t*>(numbers + 32 * block + 16 + 4 * v);
    } else {
      const std::uint32_t w = *reinterpret_cast<const std::uint32_t*>(numbers + 16 * block + 4 * v);
      b[0] = w & 0x0f0f0f0fu;
      b[1] = w >> 4 & 0x0f0f0f0fu;
      const unsigned char* high = stage + high_at + row * T::high_bytes;
      if constexpr (T::high_bytes == 8) {
        const std::uint32_t h = *reinterpret_cast<const std::uint32_t*>(high + 4 * block);
        b[0] |= (h >> v & 0x01010101u) << 4;
        b[1] |= (h >> (4 + v) & 0x01010101u) << 4;
      } else if constexpr (T::high_bytes == 16) {
        const uint2 h = *reinterpret_cast<const uint2*>(high + 8 * block);
        b[0] |= (h.x >> 2 * v & 0x03030303u) << 4;
        b[1] |= (h.y >> 2 * v & 0x03030303u) << 4;
      }
    }
  }

  __device__ __forceinline__ void compute(std::uint32_t step, float (&acc)[2][8][4]) const {
    const unsigned char* stage = shared + step % tile_stages * stage_bytes;
    const float* f = factors(step);
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t row_m = 32 * Out::warp_m(), row_n = 64 * Out::warp_n();
#pragma unroll 1
    for (std::uint32_t block = 0; block < tile_k / 32; ++block) {
      std::uint32_t a[2][4];
      float dx[2][2], sx[2][2];
      int s[2][2];
#pragma unroll
      for (std::uint32_t i = 0; i < 2; ++i) {
        // Lanes 0 .. 15 bring rows 0 .. 15 of the first 16 values, 16 .. 31 of the others.
        load_matrix_x4(a[i], stage + (row_m + 16 * i + lane % 16) * tile_x_stride + 32 * block +
                                 lane / 16 * 16);
#pragma unroll
        for (std::uint32_t h = 0; h < 2; ++h) {
          const int2 tail = *reinterpret_cast<const int2*>(
              stage + tails_at + (row_m + 16 * i + lane / 4 + 8 * h) * 16 + 8 * block);
          dx[i][h] = __int_as_float(tail.x);
          s[i][h] = tail.y;
          sx[i][h] = dx[i][h] * static_cast<float>(first_sum(tail.y) + second_sum(tail.y));
        }
      }
#pragma unroll
      for (std::uint32_t t = 0; t < 8; ++t) {
        std::uint32_t b[2];
        load_b(stage, row_n + 8 * t + lane / 4, block, b);
        const std::uint32_t column = block * rows_n + row_n + 8 * t + lane % 4 * 2;
        float2 dw[2];
        dw[0] = *reinterpret_cast<const float2*>(f + column);
        if constexpr (T::sub == 2) {
          dw[1] = *reinterpret_cast<const float2*>(f + 2 * rows_n + column);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) multiply(a[i], b, dx[i], s[i], dw, acc[i][t]);
        if constexpr (T::has_minimum) {
          const float2 added = *reinterpret_cast<const float2*>(f + 2 * rows_n * T::sub + column);
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            acc[i][t][0] = fmaf(added.x, sx[i][0], acc[i][t][0]);
            acc[i][t][1] = fmaf(added.y, sx[i][0], acc[i][t][1]);
            acc[i][t][2] = fmaf(added.x, sx[i][1], acc[i][t][2]);
            acc[i][t][3] = fmaf(added.y, sx[i][1], acc[i][t][3]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void run(const CudaArgs& args) const {
    const unsigned char* x = args.ptr<const unsigned char>(0);
    const bool wide = reinterpret_cast<std::uintptr_t>(x) % 16 == 0 && k / 32 % 2 == 0;
    const std::uint32_t steps = (k + tile_k - 1) / tile_k;
    TileScales scales[scales_per_thread];
    pdl_launch();
    copy_weights(0);
    copy_weights(1);
    load_factors(0, scales);
    pdl_wait();
    copy_x(x, 0, wide);
    async_commit();
    copy_x(x, 1, wide);
    async_commit();
    store_factors(0, scales);

    float acc[2][8][4] = {};
    for (std::uint32_t step = 0; step < steps; ++step) {
      async_wait<1>();
      __syncthreads();
      if (step + 2 < steps) {
        copy_weights(step + 2);
        copy_x(x, step + 2, wide);
      }
      async_commit();
      if (step + 1 < steps) load_factors(step + 1, scales);
      compute(step, acc);
      if (step + 1 < steps) store_factors(step + 1, scales);
    }
    Out::store(acc);
  }
};

template <class F, int WarpsM, int WarpsN>
__device__ __forceinline__ void tile_matmul(const CudaArgs& args) {
  Tile<F, WarpsM, WarpsN>{TileOut<WarpsM, WarpsN>::at_block(args), dynamic_shared()}.run(args);
}

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_MATMUL_CUDA_TILE_CUH_
