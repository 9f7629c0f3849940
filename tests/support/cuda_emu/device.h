// The part of CUDA C++ that kernels use, as plain C++ over machine.h. Included before everything
// else of a .cu file that is compiled for the emulation. What is missing here on purpose: float
// atomics (results would depend on the order) and __activemask.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline
#define __noinline__
#define __align__(n) __attribute__((aligned(n)))

#include "machine.h"

// Vector types, aligned as on the device.
#define ONEPASS_EMU_VECTORS(T, name, a2, a4)                         \
  struct alignas(a2) name##2 {                                       \
    T x, y;                                                          \
  };                                                                 \
  struct name##3 {                                                   \
    T x, y, z;                                                       \
  };                                                                 \
  struct alignas(a4) name##4 {                                       \
    T x, y, z, w;                                                    \
  };                                                                 \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
ONEPASS_EMU_VECTORS(signed char, char, 2, 4)
ONEPASS_EMU_VECTORS(unsigned char, uchar, 2, 4)
ONEPASS_EMU_VECTORS(short, short, 4, 8)
ONEPASS_EMU_VECTORS(unsigned short, ushort, 4, 8)
ONEPASS_EMU_VECTORS(int, int, 8, 16)
ONEPASS_EMU_VECTORS(unsigned, uint, 8, 16)
ONEPASS_EMU_VECTORS(float, float, 8, 16)
ONEPASS_EMU_VECTORS(double, double, 16, 16)
ONEPASS_EMU_VECTORS(long long, longlong, 16, 16)
ONEPASS_EMU_VECTORS(unsigned long long, ulonglong, 16, 16)
#undef ONEPASS_EMU_VECTORS

struct dim3 {
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  unsigned x, y, z;
};
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace onepass::emu {

inline std::uint32_t all_lanes = 0xffffffffu;

// In: what a lane brings. f(lanes): calls lanes' in<In>(i) and out<Out>(i).
template <class In, class Out>
struct TypedLanes {
  const Lanes& lanes;
  const Place& place;
  bool has(unsigned lane) const { return lanes.has(lane); }
  const In& in(unsigned lane) const { return *static_cast<const In*>(lanes.in[lane]); }
  Out& out(unsigned lane) const { return *static_cast<Out*>(lanes.out[lane]); }
  // Of a lane that must be there.
  const In& from(unsigned lane, unsigned reader) const {
    if (!has(lane)) {
      fault("%s (line %d): lane %u reads lane %u, which is not there", place.what, place.line,
            reader, lane);
    }
    return in(lane);
  }
};

template <class Out, class In, class F>
Out collective(std::uint32_t mask, const In& in, const Place& place, F) {
  static_assert(std::is_empty_v<F>);
  Out out{};
  const Meet meet = [](const Lanes& lanes, const Place& at) {
    const TypedLanes<In, Out> typed{lanes, at};
    F()(typed);
  };
  warp_meet(mask, &in, &out, meet, place);
  return out;
}

template <class T>
struct Shuffled {
  T value;
  std::uint32_t from;
};

template <class T>
T shuffle(std::uint32_t mask, T value, std::uint32_t from, const Place& place) {
  return collective<T>(mask, Shuffled<T>{value, from}, place, [](const auto& lanes) {
    for (unsigned i = 0; i < 32; ++i) {
      if (lanes.has(i)) lanes.out(i) = lanes.from(lanes.in(i).from, i).value;
    }
  });
}

// f(a, b) over all lanes, in lane order.
template <class T, class F>
T reduce(std::uint32_t mask, T value, const Place& place, F) {
  return collective<T>(mask, value, place, [](const auto& lanes) {
    bool first = true;
    T sum{};
    for (unsigned i = 0; i < 32; ++i) {
      if (!lanes.has(i)) continue;
      sum = first ? lanes.in(i) : F()(sum, lanes.in(i));
      first = false;
    }
    for (unsigned i = 0; i < 32; ++i) {
      if (lanes.has(i)) lanes.out(i) = sum;
    }
  });
}

inline unsigned lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

template <class T>
T load(const T* p) {
  if (reinterpret_cast<std::uintptr_t>(p) % alignof(T) != 0) {
    fault("load of %zu bytes at %p: misaligned", sizeof(T), static_cast<const void*>(p));
  }
  return *p;
}
template <class T>
void store(T* p, const T& value) {
  if (reinterpret_cast<std::uintptr_t>(p) % alignof(T) != 0) {
    fault("store of %zu bytes at %p: misaligned", sizeof(T), static_cast<const void*>(p));
  }
  *p = value;
}

template <class To, class From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace onepass::emu

// Barriers and fences.
inline void __syncthreads(int line = __builtin_LINE()) {
  onepass::emu::block_barrier(false, {"__syncthreads", line});
}
inline int __syncthreads_count(int p, int line = __builtin_LINE()) {
  return static_cast<int>(onepass::emu::block_barrier(p != 0, {"__syncthreads_count", line}));
}
inline int __syncthreads_or(int p, int line = __builtin_LINE()) {
  return onepass::emu::block_barrier(p != 0, {"__syncthreads_or", line}) != 0;
}
inline int __syncthreads_and(int p, int line = __builtin_LINE()) {
  return onepass::emu::block_barrier(p == 0, {"__syncthreads_and", line}) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  const char none = 0;
  onepass::emu::collective<char>(mask, none, {"__syncwarp", line}, [](const auto&) {});
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { onepass::emu::fault("__trap"); }

// Warp collectives. Width splits the warp in segments as on the device.
template <class T>
T __shfl_sync(unsigned mask, T v, int from, int width = 32, int line = __builtin_LINE()) {
  const unsigned lane = onepass::emu::lane(), w = static_cast<unsigned>(width);
  const unsigned segment = lane / w * w;
  return onepass::emu::shuffle(mask, v, segment + static_cast<unsigned>(from) % w,
                               {"__shfl_sync", line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  const unsigned lane = onepass::emu::lane(), w = static_cast<unsigned>(width);
  return onepass::emu::shuffle(mask, v, lane % w >= delta ? lane - delta : lane,
                               {"__shfl_up_sync", line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32,
                   int line = __builtin_LINE()) {
  const unsigned lane = onepass::emu::lane(), w = static_cast<unsigned>(width);
  return onepass::emu::shuffle(mask, v, lane % w + delta < w ? lane + delta : lane,
                               {"__shfl_down_sync", line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32, int line = __builtin_LINE()) {
  const unsigned lane = onepass::emu::lane(), w = static_cast<unsigned>(width);
  const unsigned from = lane ^ static_cast<unsigned>(lanes);
  return onepass::emu::shuffle(mask, v, from / w <= lane / w ? from : lane,
                               {"__shfl_xor_sync", line});
}
inline unsigned __ballot_sync(unsigned mask, int p, int line = __builtin_LINE()) {
  const unsigned bit = p != 0 ? 1u << onepass::emu::lane() : 0u;
  return onepass::emu::reduce(mask, bit, {"__ballot_sync", line},
                              [](unsigned a, unsigned b) { return a | b; });
}
inline int __any_sync(unsigned mask, int p, int line = __builtin_LINE()) {
  return onepass::emu::reduce(mask, p != 0 ? 1 : 0, {"__any_sync", line},
                              [](int a, int b) { return a | b; });
}
inline int __all_sync(unsigned mask, int p, int line = __builtin_LINE()) {
  return onepass::emu::reduce(mask, p != 0 ? 1 : 0, {"__all_sync", line},
                              [](int a, int b) { return a & b; });
}
#define ONEPASS_EMU_REDUCE(T, name, expression)                                       \
  inline T name(unsigned mask, T v, int line = __builtin_LINE()) {                    \
    return onepass::emu::reduce(mask, v, {#name, line},                               \
                                [](T a, T b) { return static_cast<T>(expression); }); \
  }
ONEPASS_EMU_REDUCE(unsigned, __reduce_add_sync, a + b)
ONEPASS_EMU_REDUCE(unsigned, __reduce_min_sync, a < b ? a : b)
ONEPASS_EMU_REDUCE(unsigned, __reduce_max_sync, a > b ? a : b)
ONEPASS_EMU_REDUCE(unsigned, __reduce_and_sync, a& b)
ONEPASS_EMU_REDUCE(unsigned, __reduce_or_sync, a | b)
ONEPASS_EMU_REDUCE(unsigned, __reduce_xor_sync, a ^ b)
ONEPASS_EMU_REDUCE(int, __reduce_add_sync, unsigned(a) + unsigned(b))
ONEPASS_EMU_REDUCE(int, __reduce_min_sync, a < b ? a : b)
ONEPASS_EMU_REDUCE(int, __reduce_max_sync, a > b ? a : b)
#undef ONEPASS_EMU_REDUCE
template <class T>
unsigned __match_any_sync(unsigned mask, T v, int line = __builtin_LINE()) {
  return onepass::emu::collective<unsigned>(
      mask, v, {"__match_any_sync", line}, [](const auto& lanes) {
        for (unsigned i = 0; i < 32; ++i) {
          for (unsigned j = 0; j < 32; ++j) {
            if (lanes.has(i) && lanes.has(j) && lanes.in(i) == lanes.in(j)) {
              lanes.out(i) |= 1u << j;
            }
          }
        }
      });
}

// Integer atomics; threads switch only where they meet.
#define ONEPASS_EMU_ATOMIC(name, expression) \
  template <class T, class U>                \
  T name(T* p, U v) {                        \
    static_assert(std::is_integral_v<T>);    \
    const T old = onepass::emu::load(p);     \
    const T value = static_cast<T>(v);       \
    *p = static_cast<T>(expression);         \
    return old;                              \
  }
ONEPASS_EMU_ATOMIC(atomicAdd, old + value)
ONEPASS_EMU_ATOMIC(atomicSub, old - value)
ONEPASS_EMU_ATOMIC(atomicExch, value)
ONEPASS_EMU_ATOMIC(atomicMin, old < value ? old : value)
ONEPASS_EMU_ATOMIC(atomicMax, old > value ? old : value)
ONEPASS_EMU_ATOMIC(atomicAnd, old& value)
ONEPASS_EMU_ATOMIC(atomicOr, old | value)
ONEPASS_EMU_ATOMIC(atomicXor, old ^ value)
ONEPASS_EMU_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
ONEPASS_EMU_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef ONEPASS_EMU_ATOMIC
template <class T, class U, class V>
T atomicCAS(T* p, U expected, V value) {
  static_assert(std::is_integral_v<T>);
  const T old = onepass::emu::load(p);
  if (old == static_cast<T>(expected)) *p = static_cast<T>(value);
  return old;
}

// Memory.
#define ONEPASS_EMU_LOAD(name)     \
  template <class T>               \
  std::remove_cv_t<T> name(T* p) { \
    return onepass::emu::load(p);  \
  }
ONEPASS_EMU_LOAD(__ldg)
ONEPASS_EMU_LOAD(__ldca)
ONEPASS_EMU_LOAD(__ldcg)
ONEPASS_EMU_LOAD(__ldcs)
ONEPASS_EMU_LOAD(__ldlu)
ONEPASS_EMU_LOAD(__ldcv)
#undef ONEPASS_EMU_LOAD
#define ONEPASS_EMU_STORE(name)                           \
  template <class T>                                      \
  void name(T* p, const std::type_identity_t<T>& value) { \
    onepass::emu::store(p, value);                        \
  }
ONEPASS_EMU_STORE(__stwb)
ONEPASS_EMU_STORE(__stcg)
ONEPASS_EMU_STORE(__stcs)
ONEPASS_EMU_STORE(__stwt)
#undef ONEPASS_EMU_STORE

// Integers.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) {
    c += int{static_cast<signed char>(a >> (8 * i))} * static_cast<signed char>(b >> (8 * i));
  }
  return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 0xff) * (b >> (8 * i) & 0xff);
  return c;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (x >> i & 1) << (31 - i);
  return r;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline int __mulhi(int a, int b) { return static_cast<int>(std::int64_t{a} * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{hi} << 32 | lo) << shift % 32 >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{hi} << 32 | lo) >> shift % 32);
}
inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{hi} << 32 | lo) << (shift < 32 ? shift : 32) >> 32);
}
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{hi} << 32 | lo) >> (shift < 32 ? shift : 32));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = s >> (4 * i) & 0xf;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (pick & 7))) & 0xff;
    if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    r |= byte << (8 * i);
  }
  return r;
}
// Four signed or unsigned bytes at once.
#define ONEPASS_EMU_BYTES(name, T, expression)                                      \
  inline unsigned name(unsigned x, unsigned y) {                                    \
    unsigned r = 0;                                                                 \
    for (int i = 0; i < 4; ++i) {                                                   \
      const int a = static_cast<T>(x >> (8 * i)), b = static_cast<T>(y >> (8 * i)); \
      r |= (static_cast<unsigned>(expression) & 0xff) << (8 * i);                   \
    }                                                                               \
    return r;                                                                       \
  }
ONEPASS_EMU_BYTES(__vadd4, unsigned char, a + b)
ONEPASS_EMU_BYTES(__vsub4, unsigned char, a - b)
ONEPASS_EMU_BYTES(__vaddss4, signed char, std::clamp(a + b, -128, 127))
ONEPASS_EMU_BYTES(__vsubss4, signed char, std::clamp(a - b, -128, 127))
ONEPASS_EMU_BYTES(__vmaxs4, signed char, std::max(a, b))
ONEPASS_EMU_BYTES(__vmins4, signed char, std::min(a, b))
ONEPASS_EMU_BYTES(__vcmpeq4, unsigned char, a == b ? 0xff : 0)
ONEPASS_EMU_BYTES(__vcmpne4, unsigned char, a != b ? 0xff : 0)
#undef ONEPASS_EMU_BYTES

// Conversions.
inline float __int_as_float(int x) { return onepass::emu::bits<float>(x); }
inline int __float_as_int(float x) { return onepass::emu::bits<int>(x); }
inline float __uint_as_float(unsigned x) { return onepass::emu::bits<float>(x); }
inline unsigned __float_as_uint(float x) { return onepass::emu::bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return onepass::emu::bits<double>(x); }
inline long long __double_as_longlong(double x) { return onepass::emu::bits<long long>(x); }
namespace onepass::emu {
// To an integer: NaN gives 0, what is out of range the nearest number.
template <class To>
To saturate(double x) {
  if (std::isnan(x)) return 0;
  constexpr double lo = static_cast<double>(std::numeric_limits<To>::min());
  constexpr double hi = static_cast<double>(std::numeric_limits<To>::max());
  return x <= lo ? std::numeric_limits<To>::min()
                 : (x >= hi ? std::numeric_limits<To>::max() : static_cast<To>(x));
}
}  // namespace onepass::emu
inline int __float2int_rn(float x) { return onepass::emu::saturate<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return onepass::emu::saturate<int>(std::trunc(x)); }
inline int __float2int_rd(float x) { return onepass::emu::saturate<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return onepass::emu::saturate<int>(std::ceil(x)); }
inline unsigned __float2uint_rn(float x) {
  return onepass::emu::saturate<unsigned>(std::nearbyint(x));
}
inline unsigned __float2uint_rz(float x) { return onepass::emu::saturate<unsigned>(std::trunc(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }

// Arithmetic. The device's fast forms have other last bits.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frsqrt_rn(float a) { return static_cast<float>(1.0 / std::sqrt(double{a})); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float a) { return static_cast<float>(1.0 / std::sqrt(double{a})); }
inline float __expf(float x) { return std::exp(x); }
inline float __exp2f(float x) { return std::exp2(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __powf(float a, float b) { return std::pow(a, b); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
template <class A, class B>
constexpr auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(std::fmin(static_cast<T>(a), static_cast<T>(b)));
  } else {
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
  }
}
template <class A, class B>
constexpr auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(std::fmax(static_cast<T>(a), static_cast<T>(b)));
  } else {
    return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
  }
}
