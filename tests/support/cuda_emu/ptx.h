// The functions of ops/shared/cuda_ptx.cuh for the host, where their contracts are written.
#pragma once

#include "device.h"
#include "ops/shared/scalar.h"

namespace onepass::emu::ptx {

inline void pdl_launch() {}
inline void pdl_wait() { grid_wait(); }
inline unsigned char* dynamic_shared() {
  return reinterpret_cast<unsigned char*>(emu::dynamic_shared());
}

inline std::uint32_t cluster_rank() { return emu::cluster_rank(); }
inline void cluster_barrier(int line = __builtin_LINE()) {
  emu::cluster_barrier({"cluster_barrier", line});
}
template <class T>
const T* cluster_peer(const T* own, std::uint32_t rank) {
  const auto at = reinterpret_cast<const std::byte*>(own) - emu::dynamic_shared();
  return reinterpret_cast<const T*>(emu::cluster_shared(rank) + at);
}

inline uint4 load_weights_16(const void* p) { return load(static_cast<const uint4*>(p)); }
inline uint2 load_weights_8(const void* p) { return load(static_cast<const uint2*>(p)); }
inline std::uint32_t load_weights_4(const void* p) {
  return load(static_cast<const std::uint32_t*>(p));
}
inline std::uint16_t load_weights_2(const void* p) {
  return load(static_cast<const std::uint16_t*>(p));
}
inline void prefetch_l2(const void* p, std::uint32_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0 || bytes % 16 != 0) {
    fault("prefetch_l2 of %u bytes at %p: misaligned", bytes, p);
  }
}

template <int Bytes>
void async_copy(void* to_shared, const void* from, std::uint32_t size = Bytes) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
  if (size > Bytes) fault("async_copy of %u bytes, at most %d", size, Bytes);
  emu::async_copy(to_shared, from, Bytes, size);
}
inline void async_commit() { emu::async_commit(); }
template <int Left>
void async_wait() {
  emu::async_wait(Left);
}

template <int N>
struct Registers {
  std::uint32_t r[N];
};

template <int N, bool Transposed>
void load_matrix(std::uint32_t (&r)[N], const void* row, const char* what) {
  const auto got = collective<Registers<N>>(0xffffffffu, row, {what, 0}, [](const auto& lanes) {
    for (int m = 0; m < N; ++m) {
      std::uint16_t matrix[8][8];
      for (unsigned i = 0; i < 8; ++i) {
        const void* p = lanes.from(8 * static_cast<unsigned>(m) + i, 0);
        if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) fault("ldmatrix at %p: misaligned", p);
        std::memcpy(matrix[i], p, 16);
      }
      for (unsigned lane = 0; lane < 32; ++lane) {
        lanes.from(lane, lane);
        const unsigned a = lane / 4, b = lane % 4 * 2;
        const std::uint32_t lo = Transposed ? matrix[b][a] : matrix[a][b];
        const std::uint32_t hi = Transposed ? matrix[b + 1][a] : matrix[a][b + 1];
        lanes.out(lane).r[m] = lo | hi << 16;
      }
    }
  });
  std::copy(got.r, got.r + N, r);
}
inline void load_matrix_x1(std::uint32_t (&r)[1], const void* row) {
  load_matrix<1, false>(r, row, "load_matrix_x1");
}
inline void load_matrix_x2(std::uint32_t (&r)[2], const void* row) {
  load_matrix<2, false>(r, row, "load_matrix_x2");
}
inline void load_matrix_x4(std::uint32_t (&r)[4], const void* row) {
  load_matrix<4, false>(r, row, "load_matrix_x4");
}
inline void load_matrix_x2_transposed(std::uint32_t (&r)[2], const void* row) {
  load_matrix<2, true>(r, row, "load_matrix_x2_transposed");
}
inline void load_matrix_x4_transposed(std::uint32_t (&r)[4], const void* row) {
  load_matrix<4, true>(r, row, "load_matrix_x4_transposed");
}

// Number types of the mma instructions: how many a register holds, and number i of it.
struct S8 {
  static constexpr int per_register = 4;
  static int get(std::uint32_t r, int i) { return static_cast<signed char>(r >> (8 * i)); }
};
struct F16 {
  static constexpr int per_register = 2;
  static double get(std::uint32_t r, int i) {
    return double{ops::op_f16_to_f32(r >> (16 * i) & 0xffff)};
  }
};
struct Bf16 {
  static constexpr int per_register = 2;
  static double get(std::uint32_t r, int i) {
    return double{ops::op_bf16_to_f32(r >> (16 * i) & 0xffff)};
  }
};
struct Tf32 {
  static constexpr int per_register = 1;
  static double get(std::uint32_t r, int) { return double{ops::op_from_bits(r & ~0x1fffu)}; }
};

template <class D, int A, int B>
struct Fragments {
  D d[4];
  std::uint32_t a[A], b[B];
};
template <class D>
struct Accumulators {
  D d[4];
};

// Of a 16 x K by K x 8 product: lane 4 g + t holds in register i of a, per K / B columns, row
// g + 8 (i % 2) and numbers t, t + 1, ... of the part i / 2; in b column g likewise; in d rows g
// and g + 8, columns 2 t and 2 t + 1.
template <class T, class D, int A, int B>
void mma(D (&d)[4], const std::uint32_t (&a)[A], const std::uint32_t (&b)[B], const char* what) {
  static_assert(A == 2 * B);
  Fragments<D, A, B> mine;
  std::copy(d, d + 4, mine.d);
  std::copy(a, a + A, mine.a);
  std::copy(b, b + B, mine.b);
  const auto got = collective<Accumulators<D>>(0xffffffffu, mine, {what, 0}, [](const auto& lanes) {
    using Sum = decltype(T::get(0u, 0));
    constexpr int p = T::per_register, k = 4 * B * p;
    Sum left[16][k], right[k][8];
    for (unsigned lane = 0; lane < 32; ++lane) {
      const auto& f = lanes.from(lane, lane);
      const unsigned g = lane / 4, t = lane % 4;
      for (int i = 0; i < A; ++i) {
        for (int j = 0; j < p; ++j) {
          left[g + 8u * static_cast<unsigned>(i % 2)]
              [4 * p * (i / 2) + static_cast<int>(t) * p + j] = T::get(f.a[i], j);
        }
      }
      for (int i = 0; i < B; ++i) {
        for (int j = 0; j < p; ++j) {
          right[4 * p * i + static_cast<int>(t) * p + j][g] = T::get(f.b[i], j);
        }
      }
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned g = lane / 4, t = lane % 4;
      for (unsigned i = 0; i < 4; ++i) {
        Sum sum = static_cast<Sum>(lanes.in(lane).d[i]);
        for (int j = 0; j < k; ++j) sum += left[g + 8 * (i / 2)][j] * right[j][2 * t + i % 2];
        lanes.out(lane).d[i] = static_cast<D>(sum);
      }
    }
  });
  std::copy(got.d, got.d + 4, d);
}
inline void mma_s8_k32(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma<S8>(d, a, b, "mma_s8_k32");
}
inline void mma_s8_k16(int (&d)[4], const std::uint32_t (&a)[2], const std::uint32_t (&b)[1]) {
  mma<S8>(d, a, b, "mma_s8_k16");
}
inline void mma_f16_k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma<F16>(d, a, b, "mma_f16_k16");
}
inline void mma_bf16_k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma<Bf16>(d, a, b, "mma_bf16_k16");
}
inline void mma_tf32_k8(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  mma<Tf32>(d, a, b, "mma_tf32_k8");
}

inline float exp2_approx(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }

}  // namespace onepass::emu::ptx
