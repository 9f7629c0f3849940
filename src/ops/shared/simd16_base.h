// Simd in plain C++: the definition of every operation.
// Code up to end_isa.h is compiled for every machine.
#define OP_ISA base
#define OP_ISA_POP 0

namespace onepass::ops::base {

struct Simd {
  struct F {
    float v[16];
  };
  struct I {
    std::int32_t v[16];
  };
  struct B {
    std::uint8_t v[64];
  };
  struct M {
    bool v[16];
  };
  static constexpr int max_rows = 4;         // rows of x a product keeps in registers
  static constexpr bool dots_bytes = false;  // dot16<8> is as fast as with fewer bits

#define OP_LANES for (int i = 0; i < 16; ++i)
  static F zero() { return F{}; }
  static F set1(float x) {
    F r;
    OP_LANES r.v[i] = x;
    return r;
  }
  static F load(const void* p) {
    F r;
    std::memcpy(r.v, p, 64);
    return r;
  }
  static F load_part(const void* p, std::size_t n) {
    F r{};
    std::memcpy(r.v, p, 4 * n);
    return r;
  }
  static void store(void* p, const F& a) { std::memcpy(p, a.v, 64); }
  static void store_part(void* p, const F& a, std::size_t n) { std::memcpy(p, a.v, 4 * n); }
  static F load_f16(const void* p) {
    std::uint16_t h[16];
    std::memcpy(h, p, 32);
    F r;
    OP_LANES r.v[i] = op_f16_to_f32(h[i]);
    return r;
  }
  static F load_bf16(const void* p) {
    std::uint16_t h[16];
    std::memcpy(h, p, 32);
    F r;
    OP_LANES r.v[i] = op_bf16_to_f32(h[i]);
    return r;
  }
  static void store_f16(void* p, const F& a) {
    std::uint16_t h[16];
    OP_LANES h[i] = static_cast<std::uint16_t>(op_f32_to_f16(a.v[i]));
    std::memcpy(p, h, 32);
  }
  static void store_bf16(void* p, const F& a) {
    std::uint16_t h[16];
    OP_LANES h[i] = static_cast<std::uint16_t>(op_f32_to_bf16(a.v[i]));
    std::memcpy(p, h, 32);
  }

#define OP_BINARY(T, name, expression)    \
  static T name(const T& a, const T& b) { \
    T r;                                  \
    OP_LANES r.v[i] = expression;         \
    return r;                             \
  }
  OP_BINARY(F, add, a.v[i] + b.v[i])
  OP_BINARY(F, sub, a.v[i] - b.v[i])
  OP_BINARY(F, mul, a.v[i] * b.v[i])
  OP_BINARY(F, div, a.v[i] / b.v[i])
  OP_BINARY(F, min, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
  OP_BINARY(F, max, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
  OP_BINARY(I, add, wrap(word(a.v[i]) + word(b.v[i])))
  OP_BINARY(I, sub, wrap(word(a.v[i]) - word(b.v[i])))
  OP_BINARY(I, bit_and, a.v[i] & b.v[i])
  OP_BINARY(I, bit_or, a.v[i] | b.v[i])
#undef OP_BINARY

  static F fma(const F& a, const F& b, const F& c) {
    F r;
    OP_LANES r.v[i] = __builtin_fmaf(a.v[i], b.v[i], c.v[i]);
    return r;
  }
  static F fnma(const F& a, const F& b, const F& c) {
    F r;
    OP_LANES r.v[i] = __builtin_fmaf(-a.v[i], b.v[i], c.v[i]);
    return r;
  }
  static F neg(const F& a) {
    F r;
    OP_LANES r.v[i] = -a.v[i];
    return r;
  }
  static F abs(const F& a) {
    F r;
    OP_LANES r.v[i] = op_from_bits(op_to_bits(a.v[i]) & 0x7fffffffu);
    return r;
  }
  static F sqrt(const F& a) {
    F r;
    OP_LANES r.v[i] = op_sqrt(a.v[i]);
    return r;
  }
  // To the nearest integer, ties to even; the sign of zero stays.
  static F round_even(const F& a) {
    F r;
    OP_LANES {
      const op_u32 sign = op_to_bits(a.v[i]) & 0x80000000u;
      const float x = op_from_bits(op_to_bits(a.v[i]) & 0x7fffffffu);
      const float y = x < 8388608.0f ? (x + 8388608.0f) - 8388608.0f : x;
      r.v[i] = op_from_bits(op_to_bits(y) | sign);
    }
    return r;
  }

#define OP_COMPARE(name, op)              \
  static M name(const F& a, const F& b) { \
    M r;                                  \
    OP_LANES r.v[i] = a.v[i] op b.v[i];   \
    return r;                             \
  }
  OP_COMPARE(lt, <)
  OP_COMPARE(gt, >)
  OP_COMPARE(le, <=)
  OP_COMPARE(ge, >=)
  OP_COMPARE(eq, ==)
#undef OP_COMPARE
  static M is_nan(const F& a) {
    M r;
    OP_LANES r.v[i] = a.v[i] != a.v[i];
    return r;
  }
  // m ? a : b
  static F select(const M& m, const F& a, const F& b) {
    F r;
    OP_LANES r.v[i] = m.v[i] ? a.v[i] : b.v[i];
    return r;
  }

  static float sum(const F& a) {
    float t[16];
    std::memcpy(t, a.v, 64);
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) t[i] += t[i + width];
    }
    return t[0];
  }
  static float max_lane(const F& a) {
    float t[16];
    std::memcpy(t, a.v, 64);
    for (int width = 8; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) t[i] = t[i] > t[i + width] ? t[i] : t[i + width];
    }
    return t[0];
  }

  static F sums(const F* a) {
    F r;
    OP_LANES r.v[i] = sum(a[i]);
    return r;
  }
  static F swap_pairs(const F& a) {
    F r;
    OP_LANES r.v[i] = a.v[i ^ 1];
    return r;
  }

  static I set1_i(std::int32_t x) {
    I r;
    OP_LANES r.v[i] = x;
    return r;
  }
  static I iota() {
    I r;
    OP_LANES r.v[i] = i;
    return r;
  }
  static I load_i(const void* p) {
    I r;
    std::memcpy(r.v, p, 64);
    return r;
  }
  static void store_i(void* p, const I& a) { std::memcpy(p, a.v, 64); }
  static I load_i8(const void* p) {
    std::int8_t t[16];
    std::memcpy(t, p, 16);
    I r;
    OP_LANES r.v[i] = t[i];
    return r;
  }
  static I load_u8(const void* p) {
    std::uint8_t t[16];
    std::memcpy(t, p, 16);
    I r;
    OP_LANES r.v[i] = t[i];
    return r;
  }
  // Lanes within the range of i8.
  static void store_i8(void* p, const I& a) {
    std::int8_t t[16];
    OP_LANES t[i] = static_cast<std::int8_t>(a.v[i]);
    std::memcpy(p, t, 16);
  }
  template <int N>
  static I shl(const I& a) {
    I r;
    OP_LANES r.v[i] = wrap(word(a.v[i]) << N);
    return r;
  }
  // Each lane by 0 to 31 bits of its own.
  static I shl(const I& a, const I& n) {
    I r;
    OP_LANES r.v[i] = wrap(word(a.v[i]) << n.v[i]);
    return r;
  }
  template <int N>
  static I sra(const I& a) {
    I r;
    OP_LANES r.v[i] = a.v[i] >> N;
    return r;
  }
  template <int N>
  static I srl(const I& a) {
    I r;
    OP_LANES r.v[i] = wrap(word(a.v[i]) >> N);
    return r;
  }
  static I to_int(const F& a) {
    I r;
    OP_LANES r.v[i] = static_cast<std::int32_t>(a.v[i]);
    return r;
  }
  static F to_float(const I& a) {
    F r;
    OP_LANES r.v[i] = static_cast<float>(a.v[i]);
    return r;
  }
  static I bits(const F& a) {
    I r;
    std::memcpy(r.v, a.v, 64);
    return r;
  }
  static F from_bits(const I& a) {
    F r;
    std::memcpy(r.v, a.v, 64);
    return r;
  }
  static std::int32_t sum_i(const I& a) {
    std::uint32_t t = 0;
    OP_LANES t += word(a.v[i]);
    return wrap(t);
  }

  static B load_b(const void* p) {
    B r;
    std::memcpy(r.v, p, 64);
    return r;
  }
  static B held(B b) { return b; }
  static B set1_b(std::uint8_t x) {
    B r;
    std::memset(r.v, x, 64);
    return r;
  }
  // Bits [At, At + Bits) of every byte, moved to bit To.
  template <int At, int Bits, int To = 0>
  static B bits_of(const B& a) {
    B r;
    for (int i = 0; i < 64; ++i) {
      r.v[i] = static_cast<std::uint8_t>((a.v[i] >> At & ((1 << Bits) - 1)) << To);
    }
    return r;
  }
  static B or_b(const B& a, const B& b) {
    B r;
    for (int i = 0; i < 64; ++i) r.v[i] = a.v[i] | b.v[i];
    return r;
  }
  static void store_b(void* p, const B& a) { std::memcpy(p, a.v, 64); }
  static B add_b(const B& a, const B& b) {
    B r;
    for (int i = 0; i < 64; ++i) r.v[i] = static_cast<std::uint8_t>(a.v[i] + b.v[i]);
    return r;
  }
  static B first_trit(const B& a) {
    B r;
    for (int i = 0; i < 64; ++i) r.v[i] = static_cast<std::uint8_t>(3 * a.v[i] >> 8);
    return r;
  }
  static B repeat16(const void* p) {
    B r;
    for (int i = 0; i < 4; ++i) std::memcpy(r.v + 16 * i, p, 16);
    return r;
  }
  static B lookup16(const B& table, const B& index) {
    B r;
    for (int i = 0; i < 64; ++i) r.v[i] = table.v[i / 16 * 16 + index.v[i]];
    return r;
  }
  static B bytes(const I& a) {
    B r;
    std::memcpy(r.v, a.v, 64);
    return r;
  }
  static I halves(const I& low, const I& high) {
    I r;
    OP_LANES r.v[i] = wrap((word(low.v[i]) & 0xffffu) | (word(high.v[i]) & 0xffff0000u));
    return r;
  }
  template <int N>
  static I words_at(const std::uint16_t* table, const I& index) {
    I r;
    OP_LANES {
      const std::uint32_t both = word(index.v[i]);
      r.v[i] = wrap(table[both & 0xffffu] | std::uint32_t{table[both >> 16]} << 16);
    }
    return r;
  }
  template <int Bits>
  static I dot16(const I& acc, const B& w0, const B& w1, const B& w2, const B& w3, const void* x) {
    std::int8_t q[16];
    std::memcpy(q, x, 16);
    I r = acc;
    OP_LANES {
      for (int j = 0; j < 4; ++j) {
        r.v[i] += w0.v[4 * i + j] * q[j] + w1.v[4 * i + j] * q[4 + j] + w2.v[4 * i + j] * q[8 + j] +
                  w3.v[4 * i + j] * q[12 + j];
      }
    }
    return r;
  }
  // The same two i16 for pair_dot in every lane.
  static I pair(std::int16_t first, std::int16_t second) {
    return set1_i(wrap((word(first) & 0xffffu) | word(second) << 16));
  }
  static I pair_dot(const void* s, const I& c) {
    std::int16_t t[2];
    std::memcpy(t, s, 4);
    I r;
    OP_LANES r.v[i] = static_cast<std::int16_t>(c.v[i] & 0xffff) * t[0] + (c.v[i] >> 16) * t[1];
    return r;
  }
  // f[2 j + 1] = d * (s0 + s1) of n <= 8 blocks {f32 d, i16 s0, i16 s1} at p; the other values
  // mean nothing.
  static void scaled_sums(const void* p, std::size_t n, float* f) {
    for (std::size_t j = 0; j < n; ++j) {
      float d;
      std::int16_t s[2];
      std::memcpy(&d, static_cast<const char*>(p) + 8 * j, 4);
      std::memcpy(s, static_cast<const char*>(p) + 8 * j + 4, 4);
      f[2 * j + 1] = d * static_cast<float>(s[0] + s[1]);
    }
  }
#undef OP_LANES

 private:
  static std::uint32_t word(std::int32_t x) { return static_cast<std::uint32_t>(x); }
  static std::int32_t wrap(std::uint32_t x) { return static_cast<std::int32_t>(x); }
};

}  // namespace onepass::ops::base

#include "ops/shared/simd16_math.h"
