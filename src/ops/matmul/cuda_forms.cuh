// Weight formats of the CUDA mat-vec kernels. A lane takes a piece of a row, 16 bytes of numbers:
//   Row row(matrix, row, k)     where the planes of a weight row are
//   load(held, row, piece)      the piece's numbers and scales, into registers
//   load_at(held, group, r, k, piece)  the same by the row's group of 16; packed formats only
//   X load_x(shared, piece, k)  the same values of a row of x from shared memory
//   X read_x(x, piece, k)       the same from a 16-byte aligned row of x; packed formats only
//   dot(held, x, acc)           acc += the product of both
// Weights start at a multiple of 16 bytes and k is a multiple of `piece`.
#ifndef ONEPASS_OPS_MATMUL_CUDA_FORMS_CUH_
#define ONEPASS_OPS_MATMUL_CUDA_FORMS_CUH_

#include <cuda_fp16.h>

#include "ops/shared/cuda_ptx.cuh"
#include "quant/split.h"

namespace onepass::ops {

__device__ __forceinline__ float half_bits(std::uint32_t h) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(h)));
}
__device__ __forceinline__ float bf16_bits(std::uint32_t h) { return __uint_as_float(h << 16); }

// x as q8a. In shared memory the first halves of all blocks come before the second halves where a
// piece is a whole block, so that neighbouring lanes read neighbouring 16 bytes.
struct XBlock {  // 32 values
  int lo[4], hi[4];
  float d;
  int s;  // sums of both halves, 16 bits each
};
struct XHalf {  // 16 values
  int q[4];
  float d;
  int s;  // their sum
};
__device__ __forceinline__ int first_sum(int s) { return static_cast<short>(s); }
__device__ __forceinline__ int second_sum(int s) { return s >> 16; }

struct BlockPieces {
  static constexpr bool quantized = true;
  static constexpr std::uint32_t piece = 32;
  static constexpr int x_batch = 2;     // pieces of x that leave room for the weights' registers
  static constexpr int norm_ahead = 2;  // the same of four weights of a norm
  using X = XBlock;
  // Where 16 values that start at 16 * chunk go.
  static __device__ __forceinline__ std::uint32_t place(std::uint32_t chunk, std::uint32_t k) {
    return (chunk % 2) * (k / 2) + chunk / 2 * 16;
  }
  static __device__ __forceinline__ X load_x(const unsigned char* row, std::uint32_t p,
                                             std::uint32_t k) {
    const int4 lo = *reinterpret_cast<const int4*>(row + 16 * p);
    const int4 hi = *reinterpret_cast<const int4*>(row + k / 2 + 16 * p);
    const int2 tail = *reinterpret_cast<const int2*>(row + k + 8 * p);
    return {{lo.x, lo.y, lo.z, lo.w}, {hi.x, hi.y, hi.z, hi.w}, __int_as_float(tail.x), tail.y};
  }
  static __device__ __forceinline__ X read_x(const unsigned char* row, std::uint32_t p,
                                             std::uint32_t k) {
    const int4 lo = *reinterpret_cast<const int4*>(row + 32 * p);
    const int4 hi = *reinterpret_cast<const int4*>(row + 32 * p + 16);
    const int2 tail = *reinterpret_cast<const int2*>(row + k + 8 * p);
    return {{lo.x, lo.y, lo.z, lo.w}, {hi.x, hi.y, hi.z, hi.w}, __int_as_float(tail.x), tail.y};
  }
};
struct HalfPieces {
  static constexpr bool quantized = true;
  static constexpr std::uint32_t piece = 16;
  static constexpr int x_batch = 4, norm_ahead = 2;
  using X = XHalf;
  static __device__ __forceinline__ std::uint32_t place(std::uint32_t chunk, std::uint32_t) {
    return 16 * chunk;
  }
  static __device__ __forceinline__ X load_x(const unsigned char* row, std::uint32_t p,
                                             std::uint32_t k) {
    const int4 q = *reinterpret_cast<const int4*>(row + 16 * p);
    const int2 tail = *reinterpret_cast<const int2*>(row + k + 4 * (p - p % 2));
    return {{q.x, q.y, q.z, q.w},
            __int_as_float(tail.x),
            p % 2 == 0 ? first_sum(tail.y) : second_sum(tail.y)};
  }
  static __device__ __forceinline__ X read_x(const unsigned char* row, std::uint32_t p,
                                             std::uint32_t k) {
    return load_x(row, p, k);
  }
};

template <class Split>
__device__ __forceinline__ const std::uint8_t* group_of(const void* matrix, std::uint32_t row,
                                                        std::uint32_t k) {
  return static_cast<const std::uint8_t*>(matrix) + row / 16 * quant::split_group_bytes<Split>(k);
}

__device__ __forceinline__ std::uint32_t load_half(const std::uint8_t* p) {
  return __ldg(reinterpret_cast<const unsigned short*>(p));
}
__device__ __forceinline__ std::uint32_t load_word(const std::uint8_t* p) {
  return __ldg(reinterpret_cast<const unsigned int*>(p));
}
__device__ __forceinline__ int low_bits(std::uint32_t w) {
  return static_cast<int>(w & 0x0f0f0f0fu);
}
__device__ __forceinline__ int high_bits(std::uint32_t w) {
  return static_cast<int>(w >> 4 & 0x0f0f0f0fu);
}

template <class Pieces, class Split_>
struct SplitForm : Pieces {
  using Split = Split_;
  static __device__ __forceinline__ std::uint64_t matrix_bytes(std::uint32_t n, std::uint32_t k) {
    return (n + 15) / 16 * quant::split_group_bytes<Split>(k);
  }
};

struct Q4_0Form : SplitForm<BlockPieces, quant::SplitQ4_0> {
  static constexpr int ahead = 2, registers = 80;
  struct Row {
    const std::uint8_t *numbers, *scales;
  };
  struct Held {
    uint4 q;
    std::uint32_t d;
  };
  static __device__ __forceinline__ Row row(const void* matrix, std::uint32_t row,
                                            std::uint32_t k) {
    const std::uint8_t* group = group_of<Split>(matrix, row, k);
    return {group + Split::numbers(k, row % 16), group + Split::scales(k, row % 16)};
  }
  static __device__ __forceinline__ void load(Held& s, const Row& row, std::uint32_t p) {
    s.q = load_weights_16(row.numbers + 16 * p);
    s.d = load_half(row.scales + 2 * p);
  }
  static __device__ __forceinline__ void load_at(Held& s, const std::uint8_t* group,
                                                 std::uint32_t r, std::uint32_t k,
                                                 std::uint32_t p) {
    s.q = load_weights_16(group + (r * (k / 2) + 16 * p));
    s.d = load_half(group + (8 * k + r * (k / 16) + 2 * p));
  }
  static __device__ __forceinline__ void dot(const Held& s, const X& x, float& acc) {
    const std::uint32_t w[4] = {s.q.x, s.q.y, s.q.z, s.q.w};
    int sum = -8 * (first_sum(x.s) + second_sum(x.s));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      sum = __dp4a(low_bits(w[j]), x.lo[j], sum);
      sum = __dp4a(high_bits(w[j]), x.hi[j], sum);
    }
    acc = fmaf(static_cast<float>(sum), half_bits(s.d) * x.d, acc);
  }
};

struct Q8_0Form : SplitForm<HalfPieces, quant::SplitQ8_0> {
  static constexpr int ahead = 2, registers = 80;
  using Row = Q4_0Form::Row;
  using Held = Q4_0Form::Held;
  static __device__ __forceinline__ Row row(const void* matrix, std::uint32_t row,
                                            std::uint32_t k) {
    const std::uint8_t* group = group_of<Split>(matrix, row, k);
    return {group + Split::numbers(k, row % 16), group + Split::scales(k, row % 16)};
  }
  static __device__ __forceinline__ void load(Held& s, const Row& row, std::uint32_t p) {
    s.q = load_weights_16(row.numbers + 16 * p);
    s.d = load_half(row.scales + p - p % 2);
  }
  static __device__ __forceinline__ void load_at(Held& s, const std::uint8_t* group,
                                                 std::uint32_t r, std::uint32_t k,
                                                 std::uint32_t p) {
    s.q = load_weights_16(group + (r * k + 16 * p));
    s.d = load_half(group + (16 * k + r * (k / 16) + (p - p % 2)));
  }
  static __device__ __forceinline__ void dot(const Held& s, const X& x, float& acc) {
    int sum = __dp4a(static_cast<int>(s.q.x), x.q[0], 0);
    sum = __dp4a(static_cast<int>(s.q.y), x.q[1], sum);
    sum = __dp4a(static_cast<int>(s.q.z), x.q[2], sum);
    sum = __dp4a(static_cast<int>(s.q.w), x.q[3], sum);
    acc = fmaf(static_cast<float>(sum), half_bits(s.d) * x.d, acc);
  }
};

// A row of a group; the planes' addresses are computed where they are used, for want of registers.
struct GroupRow {
  const std::uint8_t* group;
  std::uint32_t r, k;
};
template <class Split>
__device__ __forceinline__ GroupRow group_row(const void* matrix, std::uint32_t row,
                                              std::uint32_t k) {
  return {group_of<Split>(matrix, row, k), row % 16, k};
}

// q4_k and q5_k
template <bool FifthBit>
using SplitOf = std::conditional_t<FifthBit, quant::SplitQ5_K, quant::SplitQ4_K>;
template <bool FifthBit>
struct KForm : SplitForm<BlockPieces, SplitOf<FifthBit>> {
  using Split = SplitOf<FifthBit>;
  using X = XBlock;
  static constexpr int ahead = 2, registers = 80, x_batch = FifthBit ? 1 : 2, norm_ahead = 1;
  using Row = GroupRow;
  struct Held {
    uint4 q;
    std::uint32_t scales;  // 8-bit scale and minimum
    std::uint32_t d;       // f16 d and dmin
    std::uint32_t high;
  };
  static __device__ __forceinline__ Row row(const void* matrix, std::uint32_t row,
                                            std::uint32_t k) {
    return group_row<Split>(matrix, row, k);
  }
  static __device__ __forceinline__ void load(Held& s, const Row& w, std::uint32_t p) {
    load_at(s, w.group, w.r, w.k, p);
  }
  static __device__ __forceinline__ void load_at(Held& s, const std::uint8_t* group,
                                                 std::uint32_t r, std::uint32_t k,
                                                 std::uint32_t p) {
    s.q = load_weights_16(group + (r * (k / 2) + 16 * p));
    s.scales = load_half(group + (8 * k + r * (k / 16) + 2 * p));
    s.d = load_word(group + (9 * k + r * (k / 64) + p / 8 * 4));
    if constexpr (FifthBit) s.high = load_word(group + (9 * k + k / 4 + r * (k / 8) + 4 * p));
  }
  static __device__ __forceinline__ void dot(const Held& s, const X& x, float& acc) {
    const std::uint32_t w[4] = {s.q.x, s.q.y, s.q.z, s.q.w};
    int sum = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int lo = low_bits(w[j]), hi = high_bits(w[j]);
      if constexpr (FifthBit) {
        lo |= static_cast<int>((s.high >> j & 0x01010101u) << 4);
        hi |= static_cast<int>((s.high >> (4 + j) & 0x01010101u) << 4);
      }
      sum = __dp4a(lo, x.lo[j], sum);
      sum = __dp4a(hi, x.hi[j], sum);
    }
    const float scale = half_bits(s.d & 0xffffu) * static_cast<float>(s.scales & 255u);
    const float minimum = half_bits(s.d >> 16) * static_cast<float>(s.scales >> 8);
    const float all = x.d * static_cast<float>(first_sum(x.s) + second_sum(x.s));
    acc = fmaf(static_cast<float>(sum), scale * x.d, acc);
    acc = fmaf(-minimum, all, acc);
  }
};
using Q4_KForm = KForm<false>;
using Q5_KForm = KForm<true>;

struct Q6_KForm : SplitForm<BlockPieces, quant::SplitQ6_K> {
  static constexpr int ahead = 2, registers = 80, x_batch = 1, norm_ahead = 1;
  using Row = GroupRow;
  struct Held {
    uint4 q;
    uint2 high;
    std::uint32_t scales;  // two signed bytes
    std::uint32_t d;
  };
  static __device__ __forceinline__ Row row(const void* matrix, std::uint32_t row,
                                            std::uint32_t k) {
    return group_row<Split>(matrix, row, k);
  }
  static __device__ __forceinline__ void load(Held& s, const Row& w, std::uint32_t p) {
    load_at(s, w.group, w.r, w.k, p);
  }
  static __device__ __forceinline__ void load_at(Held& s, const std::uint8_t* group,
                                                 std::uint32_t r, std::uint32_t k,
                                                 std::uint32_t p) {
    s.q = load_weights_16(group + (r * (k / 2) + 16 * p));
    s.high = load_weights_8(group + (8 * k + r * (k / 4) + 8 * p));
    s.scales = load_half(group + (12 * k + r * (k / 16) + 2 * p));
    s.d = load_half(group + (13 * k + r * (k / 128) + p / 8 * 2));
  }
  static __device__ __forceinline__ void dot(const Held& s, const X& x, float& acc) {
    const std::uint32_t w[4] = {s.q.x, s.q.y, s.q.z, s.q.w};
    int first = -32 * first_sum(x.s), second = -32 * second_sum(x.s);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t lo = (s.high.x >> 2 * j & 0x03030303u) << 4;
      const std::uint32_t hi = (s.high.y >> 2 * j & 0x03030303u) << 4;
      first = __dp4a(low_bits(w[j]) | static_cast<int>(lo), x.lo[j], first);
      second = __dp4a(high_bits(w[j]) | static_cast<int>(hi), x.hi[j], second);
    }
    const float d = half_bits(s.d);
    const float a = d * static_cast<float>(static_cast<signed char>(s.scales & 255u));
    const float b = d * static_cast<float>(static_cast<signed char>(s.scales >> 8));
    acc = fmaf(static_cast<float>(first), a * x.d, acc);
    acc = fmaf(static_cast<float>(second), b * x.d, acc);
  }
};

template <class Split_, float (*ToFloat)(std::uint32_t)>
struct Affine4Form : SplitForm<BlockPieces, Split_> {
  using Split = Split_;
  using X = XBlock;
  static constexpr int ahead = 2, registers = 80;
  using Row = Q4_0Form::Row;
  struct Held {
    uint4 q;
    std::uint32_t s;  // scale and bias
  };
  static __device__ __forceinline__ float to_float(std::uint32_t bits) { return ToFloat(bits); }
  static __device__ __forceinline__ Row row(const void* matrix, std::uint32_t row,
                                            std::uint32_t k) {
    const std::uint8_t* group = group_of<Split>(matrix, row, k);
    return {group + Split::numbers(k, row % 16), group + Split::scales(k, row % 16)};
  }
  static __device__ __forceinline__ void load(Held& s, const Row& row, std::uint32_t p) {
    s.q = load_weights_16(row.numbers + 16 * p);
    s.s = load_word(row.scales + p / 2 * 4);
  }
  static __device__ __forceinline__ void load_at(Held& s, const std::uint8_t* group,
                                                 std::uint32_t r, std::uint32_t k,
                                                 std::uint32_t p) {
    s.q = load_weights_16(group + (r * (k / 2) + 16 * p));
    s.s = load_word(group + (8 * k + r * (k / 16) + p / 2 * 4));
  }
  static __device__ __forceinline__ void dot(const Held& s, const X& x, float& acc) {
    const std::uint32_t w[4] = {s.q.x, s.q.y, s.q.z, s.q.w};
    int sum = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      sum = __dp4a(low_bits(w[j]), x.lo[j], sum);
      sum = __dp4a(high_bits(w[j]), x.hi[j], sum);
    }
    const float all = x.d * static_cast<float>(first_sum(x.s) + second_sum(x.s));
    acc = fmaf(static_cast<float>(sum), ToFloat(s.s & 0xffffu) * x.d, acc);
    acc = fmaf(ToFloat(s.s >> 16), all, acc);
  }
};
using A4F16Form = Affine4Form<quant::SplitA4F16, half_bits>;
using A4BF16Form = Affine4Form<quant::SplitA4BF16, bf16_bits>;

template <class Split_, float (*ToFloat)(std::uint32_t)>
struct Affine8Form : SplitForm<HalfPieces, Split_> {
  using Split = Split_;
  using X = XHalf;
  static constexpr int ahead = 2, registers = 80;
  using Row = Q4_0Form::Row;
  using Held = typename Affine4Form<Split_, ToFloat>::Held;
  static __device__ __forceinline__ float to_float(std::uint32_t bits) { return ToFloat(bits); }
  static __device__ __forceinline__ Row row(const void* matrix, std::uint32_t row,
                                            std::uint32_t k) {
    const std::uint8_t* group = group_of<Split>(matrix, row, k);
    return {group + Split::numbers(k, row % 16), group + Split::scales(k, row % 16)};
  }
  static __device__ __forceinline__ void load(Held& s, const Row& row, std::uint32_t p) {
    s.q = load_weights_16(row.numbers + 16 * p);
    s.s = load_word(row.scales + p / 4 * 4);
  }
  static __device__ __forceinline__ void load_at(Held& s, const std::uint8_t* group,
                                                 std::uint32_t r, std::uint32_t k,
                                                 std::uint32_t p) {
    s.q = load_weights_16(group + (r * k + 16 * p));
    s.s = load_word(group + (16 * k + r * (k / 16) + p / 4 * 4));
  }
  static __device__ __forceinline__ void dot(const Held& s, const X& x, float& acc) {
    int sum = __dp4a(static_cast<int>(s.q.x), x.q[0], 128 * x.s);
    sum = __dp4a(static_cast<int>(s.q.y), x.q[1], sum);
    sum = __dp4a(static_cast<int>(s.q.z), x.q[2], sum);
    sum = __dp4a(static_cast<int>(s.q.w), x.q[3], sum);
    acc = fmaf(static_cast<float>(sum), ToFloat(s.s & 0xffffu) * x.d, acc);
    acc = fmaf(ToFloat(s.s >> 16), x.d * static_cast<float>(x.s), acc);
  }
};
using A8F16Form = Affine8Form<quant::SplitA8F16, half_bits>;
using A8BF16Form = Affine8Form<quant::SplitA8BF16, bf16_bits>;

// Plain elements, one row after the other; x is f32.
struct F32Form {
  static constexpr bool quantized = false;
  static constexpr std::uint32_t piece = 4;
  static constexpr int ahead = 2, registers = 80;
  using Row = const float*;
  using Held = uint4;
  using X = float4;
  static __device__ __forceinline__ std::uint64_t matrix_bytes(std::uint32_t n, std::uint32_t k) {
    return std::uint64_t{n} * k * 4;
  }
  static __device__ __forceinline__ std::uint32_t place(std::uint32_t chunk, std::uint32_t) {
    return 16 * chunk;
  }
  static __device__ __forceinline__ X load_x(const unsigned char* row, std::uint32_t p,
                                             std::uint32_t) {
    return *reinterpret_cast<const float4*>(row + 16 * p);
  }
  static __device__ __forceinline__ Row row(const void* matrix, std::uint32_t row,
                                            std::uint32_t k) {
    return static_cast<const float*>(matrix) + std::uint64_t{row} * k;
  }
  static __device__ __forceinline__ void load(Held& s, const Row& row, std::uint32_t p) {
    s = load_weights_16(row + 4 * p);
  }
  static __device__ __forceinline__ void dot(const Held& s, const X& x, float& acc) {
    acc = fmaf(__uint_as_float(s.x), x.x, acc);
    acc = fmaf(__uint_as_float(s.y), x.y, acc);
    acc = fmaf(__uint_as_float(s.z), x.z, acc);
    acc = fmaf(__uint_as_float(s.w), x.w, acc);
  }
};

template <float (*ToFloat)(std::uint32_t)>
struct Float16Form {
  static constexpr bool quantized = false;
  static constexpr std::uint32_t piece = 8;
  static constexpr int ahead = 2, registers = 80;
  using Row = const std::uint16_t*;
  using Held = uint4;
  struct X {
    float4 lo, hi;
  };
  static __device__ __forceinline__ float to_float(std::uint32_t bits) { return ToFloat(bits); }
  static __device__ __forceinline__ std::uint64_t matrix_bytes(std::uint32_t n, std::uint32_t k) {
    return std::uint64_t{n} * k * 2;
  }
  static __device__ __forceinline__ std::uint32_t place(std::uint32_t chunk, std::uint32_t k) {
    return (chunk % 2) * (k * 2) + chunk / 2 * 16;
  }
  static __device__ __forceinline__ X load_x(const unsigned char* row, std::uint32_t p,
                                             std::uint32_t k) {
    return {*reinterpret_cast<const float4*>(row + 16 * p),
            *reinterpret_cast<const float4*>(row + 2 * k + 16 * p)};
  }
  static __device__ __forceinline__ Row row(const void* matrix, std::uint32_t row,
                                            std::uint32_t k) {
    return static_cast<const std::uint16_t*>(matrix) + std::uint64_t{row} * k;
  }
  static __device__ __forceinline__ void load(Held& s, const Row& row, std::uint32_t p) {
    s = load_weights_16(row + 8 * p);
  }
  static __device__ __forceinline__ void dot(const Held& s, const X& x, float& acc) {
    acc = fmaf(ToFloat(s.x & 0xffffu), x.lo.x, acc);
    acc = fmaf(ToFloat(s.x >> 16), x.lo.y, acc);
    acc = fmaf(ToFloat(s.y & 0xffffu), x.lo.z, acc);
    acc = fmaf(ToFloat(s.y >> 16), x.lo.w, acc);
    acc = fmaf(ToFloat(s.z & 0xffffu), x.hi.x, acc);
    acc = fmaf(ToFloat(s.z >> 16), x.hi.y, acc);
    acc = fmaf(ToFloat(s.w & 0xffffu), x.hi.z, acc);
    acc = fmaf(ToFloat(s.w >> 16), x.hi.w, acc);
  }
};
using F16Form = Float16Form<half_bits>;
using BF16Form = Float16Form<bf16_bits>;

}  // namespace onepass::ops

#endif  // ONEPASS_OPS_MATMUL_CUDA_FORMS_CUH_
