// Mat-vec kernels on q4_0 and q8_0 weights with q8a activations.
//
// r16: groups of 16 rows, block = 16 f16 scales and 16 x 32 quants; a half-warp takes one block per
// step, lane p of it the quants k = 4v..4v+3 and 16+4v..16+4v+3 (v = p / 4) of rows 4(p % 4)..+3.
// rows: all quants of a row contiguous in file order, all scales apart; a lane takes 16 bytes.
// q8a row: k int8, then {f32 d, i16 s0, i16 s1} per 32 values.
#pragma once

#include "common.cuh"

namespace bench {

enum Format { q4 = 0, q8 = 1 };
// Where the q8a activations come from: copied to shared memory; read through L1; quantized by
// every block from f32; the same after an RMS norm.
enum Input { x_shared, x_l1, x_f32, x_norm };
enum Output { out_store, out_residual, out_silu_f32, out_silu_q8a };
enum Flags { early_loads = 1, l2_prefetch = 2, late_trigger = 4 };

__host__ __device__ constexpr int block_bytes(int format) { return format == q4 ? 288 : 544; }
__host__ __device__ constexpr int row_block_bytes(int format) { return format == q4 ? 18 : 34; }

// A thread keeps this many float4 of a row that is being normalized.
constexpr int norm_parts = 2;

struct MvArgs {
  const std::uint8_t* w;
  const __half* scales;  // rows layout only
  const void* x;
  const float* norm_w;
  const float* residual;
  void* out;
  int n;  // rows
  int n_blk;
  int flags;
};

// Every block of every kernel waits before its first access to anything another node writes.
__device__ __forceinline__ void wait_for_inputs() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
__device__ __forceinline__ void release_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Weights are immutable, so the read-only path is safe before the wait as well.
__device__ __forceinline__ uint4 load_weights(const std::uint8_t* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__device__ __forceinline__ uint2 load_scales(const std::uint8_t* p) {
  uint2 v;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}
__device__ __forceinline__ __half load_scale(const __half* p) {
  unsigned short v;
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return __ushort_as_half(v);
}
__device__ __forceinline__ void prefetch_l2(const void* p, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes) : "memory");
}

template <int F>
struct Slot {
  uint4 q[F == q4 ? 1 : 2];
  uint2 s;
};

// p: lane within the half-warp.
template <int F>
__device__ __forceinline__ void load_slot(Slot<F>& slot, const std::uint8_t* block, int p) {
  slot.q[0] = load_weights(block + 32 + 16 * p);
  if constexpr (F == q8) slot.q[1] = load_weights(block + 288 + 16 * p);
  slot.s = load_scales(block + 8 * (p % 4));
}

struct Activation {
  int x0, x1;  // 4 quants each, k = 4v and 16 + 4v
  float d;
  int s;  // i16 s0, i16 s1
};

__device__ __forceinline__ Activation load_activation(const std::uint8_t* x, int n_blk, int b,
                                                      int v) {
  Activation a;
  a.x0 = *reinterpret_cast<const int*>(x + 32 * b + 4 * v);
  a.x1 = *reinterpret_cast<const int*>(x + 32 * b + 16 + 4 * v);
  const int2 ds = *reinterpret_cast<const int2*>(x + 32 * n_blk + 8 * b);
  a.d = __int_as_float(ds.x);
  a.s = ds.y;
  return a;
}

__device__ __forceinline__ int both_sums(int s) { return static_cast<short>(s) + (s >> 16); }

template <int F>
__device__ __forceinline__ void consume(const Slot<F>& slot, const Activation& a, int v,
                                        float (&acc)[4]) {
  const float2 d01 = __half22float2(*reinterpret_cast<const __half2*>(&slot.s.x));
  const float2 d23 = __half22float2(*reinterpret_cast<const __half2*>(&slot.s.y));
  const float d[4] = {d01.x, d01.y, d23.x, d23.y};
  const std::uint32_t w[4] = {slot.q[0].x, slot.q[0].y, slot.q[0].z, slot.q[0].w};
  if constexpr (F == q4) {
    const int start = v == 0 ? -8 * both_sums(a.s) : 0;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      int i = __dp4a(static_cast<int>(w[r] & 0x0F0F0F0Fu), a.x0, start);
      i = __dp4a(static_cast<int>((w[r] >> 4) & 0x0F0F0F0Fu), a.x1, i);
      acc[r] = fmaf(static_cast<float>(i), d[r] * a.d, acc[r]);
    }
  } else {
    const std::uint32_t w1[4] = {slot.q[1].x, slot.q[1].y, slot.q[1].z, slot.q[1].w};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      int i = __dp4a(static_cast<int>(w[r] ^ 0x80808080u), a.x0, 0);
      i = __dp4a(static_cast<int>(w1[r] ^ 0x80808080u), a.x1, i);
      acc[r] = fmaf(static_cast<float>(i), d[r] * a.d, acc[r]);
    }
  }
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(~0u, v, m);
  return v;
}

// Quantizes 32 values held by 8 neighbouring lanes, 4 each. Returns this lane's 4 quants; d and s
// (both half sums) are the same in all 8 lanes.
__device__ __forceinline__ int quantize_4(float4 v, float& d, int& s) {
  float top = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
#pragma unroll
  for (int m = 4; m > 0; m /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, m));
  d = top / 127.0f;
  const float inverse = d > 0.0f ? 1.0f / d : 0.0f;
  const int a = __float2int_rn(v.x * inverse), b = __float2int_rn(v.y * inverse);
  const int c = __float2int_rn(v.z * inverse), e = __float2int_rn(v.w * inverse);
  const int word = (a & 255) | (b & 255) << 8 | (c & 255) << 16 | (e & 255) << 24;
  int sum = a + b + c + e;
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  const int other = __shfl_xor_sync(~0u, sum, 4);
  const bool first = threadIdx.x % 8 < 4;
  s = ((first ? sum : other) & 0xFFFF) | (first ? other : sum) << 16;
  return word;
}

// The whole block quantizes n_blk * 32 floats of global memory into q8a at out. Whole warps take
// part in every step, so that the shuffles see all lanes. Norm: at most 8 values per thread.
template <bool Norm>
__device__ __forceinline__ void quantize_row(const float* x, const float4 (&norm_w)[norm_parts],
                                             int n_blk, std::uint8_t* out, float* partial) {
  const int threads = static_cast<int>(blockDim.x), t = static_cast<int>(threadIdx.x);
  const int n4 = n_blk * 8;
  const float4* x4 = reinterpret_cast<const float4*>(x);
  for (int base = 0; base < n4; base += norm_parts * threads) {
    float4 kept[norm_parts];
#pragma unroll
    for (int i = 0; i < norm_parts; ++i) {
      const int j = base + t + i * threads;
      kept[i] = j < n4 ? __ldcg(x4 + j) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    if constexpr (Norm) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < norm_parts; ++i) {
        sum = fmaf(kept[i].x, kept[i].x, sum);
        sum = fmaf(kept[i].y, kept[i].y, sum);
        sum = fmaf(kept[i].z, kept[i].z, sum);
        sum = fmaf(kept[i].w, kept[i].w, sum);
      }
      sum = warp_sum(sum);
      if (t % 32 == 0) partial[t / 32] = sum;
      __syncthreads();
      sum = 0.0f;
      for (int i = 0; i < threads / 32; ++i) sum += partial[i];
      const float scale = 1.0f / sqrtf(sum / static_cast<float>(n_blk * 32) + 1e-5f);
#pragma unroll
      for (int i = 0; i < norm_parts; ++i) {
        kept[i].x *= scale * norm_w[i].x;
        kept[i].y *= scale * norm_w[i].y;
        kept[i].z *= scale * norm_w[i].z;
        kept[i].w *= scale * norm_w[i].w;
      }
    }
#pragma unroll
    for (int i = 0; i < norm_parts; ++i) {
      const int j = base + t + i * threads;
      if (base + i * threads < n4) {
        float d;
        int s;
        const int word = quantize_4(kept[i], d, s);
        if (j < n4) {
          reinterpret_cast<int*>(out)[j] = word;
          if (j % 8 == 0)
            *reinterpret_cast<int2*>(out + 32 * n_blk + j) = make_int2(__float_as_int(d), s);
        }
      }
    }
  }
}

__device__ __forceinline__ void load_norm_weights(const float* w, int n_blk,
                                                  float4 (&out)[norm_parts]) {
#pragma unroll
  for (int i = 0; i < norm_parts; ++i) {
    const int j = static_cast<int>(threadIdx.x) + i * static_cast<int>(blockDim.x);
    out[i] = j < n_blk * 8 ? __ldg(reinterpret_cast<const float4*>(w) + j)
                           : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
}

// 32 values, one per lane, as block `block` of a q8a row of k values.
__device__ __forceinline__ void store_q8a_block(std::uint8_t* row, int k, int block, float v) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float top = fabsf(v);
#pragma unroll
  for (int m = 16; m > 0; m /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, m));
  const float d = top / 127.0f;
  const int q = __float2int_rn(v * (d > 0.0f ? 1.0f / d : 0.0f));
  int sum = q;
#pragma unroll
  for (int m = 8; m > 0; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
  const int other = __shfl_xor_sync(~0u, sum, 16);
  row[32 * block + lane] = static_cast<std::uint8_t>(q);
  if (lane == 0)
    *reinterpret_cast<int2*>(row + k + 8 * block) =
        make_int2(__float_as_int(d), (sum & 0xFFFF) | other << 16);
}

template <int X>
__device__ __forceinline__ void stage_activations(const MvArgs& a,
                                                  const float4 (&norm_w)[norm_parts],
                                                  std::uint8_t* xs, float* partial) {
  if constexpr (X == x_shared) {
    const int n16 = a.n_blk * 40 / 16;
    for (int i = static_cast<int>(threadIdx.x); i < n16; i += static_cast<int>(blockDim.x))
      reinterpret_cast<uint4*>(xs)[i] = __ldcg(static_cast<const uint4*>(a.x) + i);
  } else if constexpr (X == x_f32) {
    quantize_row<false>(static_cast<const float*>(a.x), norm_w, a.n_blk, xs, partial);
  } else if constexpr (X == x_norm) {
    quantize_row<true>(static_cast<const float*>(a.x), norm_w, a.n_blk, xs, partial);
  }
  if constexpr (X != x_l1) __syncthreads();
}

// sum: row r of group g of this block, for the threads t = 16 g + r < 16 G.
template <int G, int W, int E>
__device__ __forceinline__ void write_rows(const MvArgs& a, const float (*red)[W][16],
                                           float residual) {
  const int t = static_cast<int>(threadIdx.x);
  const auto total = [&](int g, int r) {
    float sum = red[g][0][r];
#pragma unroll
    for (int w = 1; w < W; ++w) sum += red[g][w][r];
    return sum;
  };
  const auto silu = [](float g) { return g / (1.0f + expf(-g)); };
  if constexpr (E == out_store || E == out_residual) {
    const int row = static_cast<int>(blockIdx.x) * G * 16 + t;
    if (t < 16 * G && row < a.n) static_cast<float*>(a.out)[row] = total(t / 16, t % 16) + residual;
  } else if constexpr (E == out_silu_f32) {
    static_assert(G == 2);
    if (t < 16) static_cast<float*>(a.out)[blockIdx.x * 16 + t] = silu(total(0, t)) * total(1, t);
  } else {
    static_assert(G == 4);
    if (t < 32) {
      const int g = t / 16 * 2, r = t % 16;
      store_q8a_block(static_cast<std::uint8_t*>(a.out), a.n / 2, static_cast<int>(blockIdx.x),
                      silu(total(g, r)) * total(g + 1, r));
    }
  }
}

// Sums the 8 lanes that hold parts of the same 4 rows; lanes 0..3 store rows 4 lane..+3.
__device__ __forceinline__ void store_partial(float (&acc)[4], float* red, int lane) {
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int m = 4; m < 32; m *= 2) acc[r] += __shfl_xor_sync(~0u, acc[r], m);
  }
  if (lane < 4)
    *reinterpret_cast<float4*>(red + 4 * lane) = make_float4(acc[0], acc[1], acc[2], acc[3]);
}

// Threads of a kernel that must fit on a multiprocessor, so that blocks of the next node find room
// beside this node's.
template <int F, int U>
__host__ __device__ constexpr int resident_threads() {
  const int registers = U * (F == q4 ? 6 : 10);
  return registers <= 24 ? 1024 : registers <= 40 ? 768 : 512;
}

// A block computes G groups, W warps share the K of each; every half-warp keeps U blocks of weights
// in flight in registers.
template <int F, int W, int G, int U, int X, int E>
__global__ void __launch_bounds__(32 * W * G, resident_threads<F, U>() / (32 * W * G))
    mv_r16(const __grid_constant__ MvArgs a) {
  extern __shared__ __align__(16) std::uint8_t xs[];
  __shared__ __align__(16) float red[G][W][16];
  __shared__ float partial[W * G];
  constexpr int bytes = block_bytes(F), stride = 2 * W;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, p = lane % 16, v = p / 4;
  const int g = t / 32 / W, first = t / 32 % W * 2 + lane / 16;
  const int group = static_cast<int>(blockIdx.x) * G + g;
  const int n_blk = group * 16 < a.n ? a.n_blk : 0;
  const std::uint8_t* w = a.w + static_cast<std::size_t>(group) * a.n_blk * bytes;
  if (!(a.flags & late_trigger)) release_dependents();
  if (!(a.flags & early_loads)) wait_for_inputs();

  Slot<F> slots[U];
#pragma unroll
  for (int i = 0; i < U; ++i) {
    const int b = first + i * stride;
    if (b < n_blk) load_slot(slots[i], w + b * bytes, p);
  }
  float4 norm_w[norm_parts];
  if constexpr (X == x_norm) load_norm_weights(a.norm_w, a.n_blk, norm_w);
  if ((a.flags & l2_prefetch) && n_blk > 0 && t % (32 * W) == 0)
    prefetch_l2(w, static_cast<unsigned>(a.n_blk * bytes));
  if (a.flags & early_loads) wait_for_inputs();

  float residual = 0.0f;
  if constexpr (E == out_residual) {
    const int row = static_cast<int>(blockIdx.x) * G * 16 + t;
    if (t < 16 * G && row < a.n) residual = __ldcg(a.residual + row);
  }
  stage_activations<X>(a, norm_w, xs, partial);
  const std::uint8_t* x = X == x_l1 ? static_cast<const std::uint8_t*>(a.x) : xs;
  float acc[4] = {};
  for (int begin = first; begin < n_blk; begin += U * stride) {
#pragma unroll
    for (int i = 0; i < U; ++i) {
      const int b = begin + i * stride, next = b + U * stride;
      if (b < n_blk) {
        consume(slots[i], load_activation(x, a.n_blk, b, v), v, acc);
        if (next < n_blk) load_slot(slots[i], w + next * bytes, p);
      }
    }
  }
  if (a.flags & late_trigger) release_dependents();
  __syncwarp();
  store_partial(acc, red[g][t / 32 % W], lane);
  __syncthreads();
  write_rows<G, W, E>(a, red, residual);
}

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// As mv_r16, but each warp streams its own chunks of SB blocks through S stages of shared memory
// with bulk copies.
template <int F, int W, int SB, int S>
__global__ void __launch_bounds__(32 * W) mv_bulk(const __grid_constant__ MvArgs a) {
  extern __shared__ __align__(128) std::uint8_t stages[];
  __shared__ __align__(8) std::uint64_t full[W * S];
  __shared__ __align__(16) float red[1][W][16];
  constexpr int bytes = block_bytes(F), stage_bytes = SB * bytes;
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, p = lane % 16, v = p / 4;
  const int warp = t / 32;
  std::uint8_t* ring = stages + warp * S * stage_bytes;
  std::uint8_t* xs = stages + W * S * stage_bytes;
  const std::uint8_t* w = a.w + static_cast<std::size_t>(blockIdx.x) * a.n_blk * bytes;
  const int chunks = (a.n_blk + SB - 1) / SB;
  const int mine = chunks > warp ? (chunks - warp + W - 1) / W : 0;
  const auto blocks_of = [&](int i) { return min(SB, a.n_blk - (warp + W * i) * SB); };
  const auto issue = [&](int i) {
    const std::uint32_t size = static_cast<std::uint32_t>(blocks_of(i) * bytes);
    const std::uint32_t bar = shared_address(&full[warp * S + i % S]);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(size)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(ring + i % S * stage_bytes)),
        "l"(w + static_cast<std::size_t>(warp + W * i) * stage_bytes), "r"(size), "r"(bar)
        : "memory");
  };
  if (!(a.flags & late_trigger)) release_dependents();
  if (!(a.flags & early_loads)) wait_for_inputs();
  if (lane == 0) {
    for (int i = 0; i < S; ++i)
      asm volatile(
          "mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[warp * S + i]))
          : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int i = 0; i < min(S, mine); ++i) issue(i);
  }
  __syncwarp();
  if (a.flags & early_loads) wait_for_inputs();
  const float4 none[norm_parts] = {};
  stage_activations<x_shared>(a, none, xs, nullptr);
  float acc[4] = {};
  for (int i = 0; i < mine; ++i) {
    const std::uint32_t bar = shared_address(&full[warp * S + i % S]), parity = i / S & 1;
    std::uint32_t done = 0;
    while (!done)
      asm volatile(
          "{ .reg .pred q; mbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2; "
          "selp.u32 %0, 1, 0, q; }"
          : "=r"(done)
          : "r"(bar), "r"(parity)
          : "memory");
    const std::uint8_t* stage = ring + i % S * stage_bytes;
    const int count = blocks_of(i), base = (warp + W * i) * SB;
#pragma unroll
    for (int j = 0; j < SB; j += 2) {
      const int b = j + lane / 16;
      if (b < count) {
        const std::uint8_t* block = stage + b * bytes;
        Slot<F> slot;
        slot.q[0] = *reinterpret_cast<const uint4*>(block + 32 + 16 * p);
        if constexpr (F == q8) slot.q[1] = *reinterpret_cast<const uint4*>(block + 288 + 16 * p);
        slot.s = *reinterpret_cast<const uint2*>(block + 8 * (p % 4));
        consume(slot, load_activation(xs, a.n_blk, base + b, v), v, acc);
      }
    }
    __syncwarp();
    if (lane == 0 && i + S < mine) issue(i + S);
  }
  if (a.flags & late_trigger) release_dependents();
  __syncwarp();
  store_partial(acc, red[0][warp], lane);
  __syncthreads();
  write_rows<1, W, out_store>(a, red, 0.0f);
}

// rows layout: 8 warps, S of them share the K of R rows; U steps of weights in flight.
template <int F, int R, int S, int U>
__global__ void __launch_bounds__(256) mv_rows(const __grid_constant__ MvArgs a) {
  extern __shared__ __align__(16) std::uint8_t xs[];
  __shared__ float red[8][R];
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const int pieces = F == q4 ? a.n_blk : 2 * a.n_blk;
  const int row = (static_cast<int>(blockIdx.x) * (8 / S) + warp / S) * R;
  const int first = warp % S * 32 + lane;
  const std::uint8_t* w = a.w + static_cast<std::size_t>(row) * pieces * 16;
  const __half* scales = a.scales + static_cast<std::size_t>(row) * a.n_blk;
  uint4 q[U][R];
  __half d[U][R];
  const auto load = [&](int i, int piece) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      q[i][r] = load_weights(w + (static_cast<std::size_t>(r) * pieces + piece) * 16);
      d[i][r] = load_scale(scales + r * a.n_blk + (F == q4 ? piece : piece / 2));
    }
  };
  if (!(a.flags & late_trigger)) release_dependents();
  if (!(a.flags & early_loads)) wait_for_inputs();
#pragma unroll
  for (int i = 0; i < U; ++i)
    if (first + i * 32 * S < pieces) load(i, first + i * 32 * S);
  if (a.flags & early_loads) wait_for_inputs();
  const float4 none[norm_parts] = {};
  stage_activations<x_shared>(a, none, xs, nullptr);
  float acc[R] = {};
  for (int begin = first; begin < pieces; begin += U * 32 * S) {
#pragma unroll
    for (int i = 0; i < U; ++i) {
      const int piece = begin + i * 32 * S, next = piece + U * 32 * S;
      if (piece < pieces) {
        const int b = F == q4 ? piece : piece / 2;
        const int2 ds = *reinterpret_cast<const int2*>(xs + 32 * a.n_blk + 8 * b);
        const float dx = __int_as_float(ds.x);
        int x[F == q4 ? 8 : 4];
#pragma unroll
        for (int j = 0; j < (F == q4 ? 2 : 1); ++j) {
          const int4 part = reinterpret_cast<const int4*>(xs)[F == q4 ? 2 * piece + j : piece];
          x[4 * j] = part.x, x[4 * j + 1] = part.y, x[4 * j + 2] = part.z, x[4 * j + 3] = part.w;
        }
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const std::uint32_t words[4] = {q[i][r].x, q[i][r].y, q[i][r].z, q[i][r].w};
          int sum = F == q4 ? -8 * both_sums(ds.y) : 0;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            if constexpr (F == q4) {
              sum = __dp4a(static_cast<int>(words[j] & 0x0F0F0F0Fu), x[j], sum);
              sum = __dp4a(static_cast<int>((words[j] >> 4) & 0x0F0F0F0Fu), x[4 + j], sum);
            } else {
              sum = __dp4a(static_cast<int>(words[j]), x[j], sum);
            }
          }
          acc[r] = fmaf(static_cast<float>(sum), __half2float(d[i][r]) * dx, acc[r]);
        }
        if (next < pieces) load(i, next);
      }
    }
  }
  if (a.flags & late_trigger) release_dependents();
  __syncwarp();
#pragma unroll
  for (int r = 0; r < R; ++r) acc[r] = warp_sum(acc[r]);
  if (lane == 0)
#pragma unroll
    for (int r = 0; r < R; ++r) red[warp][r] = acc[r];
  __syncthreads();
  if (t < 8 / S * R) {
    const int set = t / R, r = t % R;
    float sum = red[set * S][r];
#pragma unroll
    for (int i = 1; i < S; ++i) sum += red[set * S + i][r];
    static_cast<float*>(a.out)[static_cast<int>(blockIdx.x) * (8 / S) * R + t] = sum;
  }
}

// Only reads the weights: what any mat-vec with these edges could reach. Every warp stores the xor
// of the words it read.
template <int U>
__global__ void __launch_bounds__(256) stream_weights(const __grid_constant__ MvArgs a) {
  const std::size_t total = static_cast<std::size_t>(a.n) * a.n_blk * a.flags / 16;
  const std::size_t threads = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  release_dependents();
  uint4 q[U];
  std::uint32_t acc = 0;
  const auto load = [&](std::size_t begin) {
#pragma unroll
    for (int i = 0; i < U; ++i) {
      q[i] = make_uint4(0, 0, 0, 0);
      const std::size_t at = begin + i * threads;
      if (at < total) q[i] = load_weights(a.w + 16 * at);
    }
  };
  load(first);
  wait_for_inputs();
  for (std::size_t begin = first; begin < total; begin += U * threads) {
    if (begin != first) load(begin);
#pragma unroll
    for (int i = 0; i < U; ++i) acc ^= q[i].x ^ q[i].y ^ q[i].z ^ q[i].w;
  }
  __syncwarp();
#pragma unroll
  for (int m = 16; m > 0; m /= 2) acc ^= __shfl_xor_sync(~0u, acc, m);
  if (threadIdx.x % 32 == 0) static_cast<std::uint32_t*>(a.out)[first / 32] = acc;
}

// Synthetic weights: quant k of a block, and its scale, as pure functions of (seed, row, block).
template <int F>
__host__ __device__ inline int quant_of(std::uint32_t seed, std::uint32_t row, std::uint32_t b,
                                        int k) {
  if (F == q4)
    return static_cast<int>(random_u32(seed, row, b * 9 + k / 8) >> (4 * (k % 8)) & 15u) - 8;
  return static_cast<signed char>(random_u32(seed, row, b * 9 + k / 4) >> (8 * (k % 4)) & 255u);
}
template <int F>
__host__ __device__ inline __half scale_of(std::uint32_t seed, std::uint32_t row, std::uint32_t b,
                                           float base) {
  const std::uint32_t u = random_u32(seed + 7777, row, b) & 1023u;
  return __float2half(base * (0.5f + static_cast<float>(u) / 1024.0f));
}
// Makes products of about unit variance.
template <int F>
inline float scale_base(int k) {
  return 1.0f / ((F == q4 ? 4.6f : 74.0f) * std::sqrt(static_cast<float>(k)));
}

struct FillArgs {
  std::uint8_t* w;
  __half* scales;  // null: r16
  std::uint32_t seed, rows, n_blk;
  float base;
};

template <int F>
__global__ void fill_weights(FillArgs a) {
  const std::size_t count = static_cast<std::size_t>(a.rows) * a.n_blk;
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    const std::uint32_t row = static_cast<std::uint32_t>(i / a.n_blk);
    const std::uint32_t b = static_cast<std::uint32_t>(i % a.n_blk), r = row % 16;
    std::uint8_t* group_block =
        a.w + (static_cast<std::size_t>(row / 16) * a.n_blk + b) * block_bytes(F);
    const __half d = scale_of<F>(a.seed, row, b, a.base);
    if (a.scales) {
      a.scales[i] = d;
    } else {
      reinterpret_cast<__half*>(group_block)[r] = d;
    }
    for (int v = 0; v < (F == q4 ? 4 : 8); ++v) {
      std::uint32_t word = 0;
      for (int j = 0; j < 4; ++j) {
        std::uint32_t byte;
        if (F == q4) {
          byte = static_cast<std::uint32_t>(quant_of<F>(a.seed, row, b, 4 * v + j) + 8) |
                 static_cast<std::uint32_t>(quant_of<F>(a.seed, row, b, 16 + 4 * v + j) + 8) << 4;
        } else {
          const int q = quant_of<F>(a.seed, row, b, 4 * v + j);
          byte = static_cast<std::uint32_t>(a.scales ? q : q + 128) & 255u;
        }
        word |= byte << (8 * j);
      }
      if (a.scales) {
        reinterpret_cast<std::uint32_t*>(a.w)[i * (F == q4 ? 4 : 8) + v] = word;
      } else {
        *reinterpret_cast<std::uint32_t*>(group_block + 32 + 64 * v + 4 * r) = word;
      }
    }
  }
}

template <int F>
void fill(std::uint8_t* w, __half* scales, std::uint32_t seed, std::size_t rows, int k,
          cudaStream_t stream) {
  fill_weights<F><<<1320, 256, 0, stream>>>({w, scales, seed, static_cast<std::uint32_t>(rows),
                                             static_cast<std::uint32_t>(k / 32), scale_base<F>(k)});
  BENCH_CHECK(cudaGetLastError());
}

// Dot product of synthetic row `row` with a q8a row, in double.
template <int F>
double reference_dot(std::uint32_t seed, std::uint32_t row, int k, const std::uint8_t* x) {
  double sum = 0;
  for (int b = 0; b < k / 32; ++b) {
    int dot = 0;
    for (int i = 0; i < 32; ++i)
      dot += quant_of<F>(seed, row, static_cast<std::uint32_t>(b), i) *
             static_cast<signed char>(x[32 * b + i]);
    float d;
    std::copy_n(x + k + 8 * b, 4, reinterpret_cast<std::uint8_t*>(&d));
    sum += static_cast<double>(__half2float(
               scale_of<F>(seed, row, static_cast<std::uint32_t>(b), scale_base<F>(k)))) *
           static_cast<double>(d) * dot;
  }
  return sum;
}

// q8a of k floats.
inline std::vector<std::uint8_t> quantize_host(const std::vector<float>& x) {
  const std::size_t k = x.size();
  std::vector<std::uint8_t> row(k / 32 * 40);
  for (std::size_t b = 0; b < k / 32; ++b) {
    float top = 0;
    for (std::size_t i = 0; i < 32; ++i) top = std::max(top, std::fabs(x[32 * b + i]));
    const float d = top / 127.0f, inverse = d > 0 ? 1.0f / d : 0.0f;
    std::int16_t sums[2] = {0, 0};
    for (std::size_t i = 0; i < 32; ++i) {
      const int q = static_cast<int>(std::nearbyint(x[32 * b + i] * inverse));
      row[32 * b + i] = static_cast<std::uint8_t>(q);
      sums[i / 16] = static_cast<std::int16_t>(sums[i / 16] + q);
    }
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&d), 4, &row[k + 8 * b]);
    std::copy_n(reinterpret_cast<const std::uint8_t*>(sums), 4, &row[k + 8 * b + 4]);
  }
  return row;
}

}  // namespace bench
