// Layout r16, for the CPU's kernels: blocks of 16 rows interleaved, one group of 16 rows after the
// other, within a group one block after the other along k.
//
// Byte 4 r + j of a vector of 64 bytes belongs to row r of the group. 32 numbers of N bits along k
// are N vectors: a plane of their low 8, 4, 2 or 1 bits, then planes of what is left of N, the same
// way. Vector v of a plane of P bits holds value 4 v + j in its lowest P bits, 4 (v + P) + j in the
// next P, and so on. Scales are one per row, f16 unless said otherwise. Rows beyond the matrix are
// zero bytes. Behind the blocks of a group a form with `row_scales` has 16 f32 with which all
// values of a row are multiplied.
//
// The form of a type has offsets in bytes inside one packed block of `elements` values along k, a
// Family, which names the shape of its kernels, put(), which moves one native block of row r into a
// packed block whose bytes are zero, and get(), which gives the values of row r: the bits of
// dequantize() of the native block.
#ifndef ONEPASS_QUANT_R16_H_
#define ONEPASS_QUANT_R16_H_

#include <cstddef>
#include <cstring>

#include "ops/shared/scalar.h"

namespace onepass::quant {

struct F32Bits {
  using Bits = std::uint32_t;
  static OP_FN float value(ops::op_u32 bits) { return ops::op_from_bits(bits); }
};
struct F16Bits {
  using Bits = std::uint16_t;
  static OP_FN float value(ops::op_u32 bits) { return ops::op_f16_to_f32(bits); }
};
struct BF16Bits {
  using Bits = std::uint16_t;
  static OP_FN float value(ops::op_u32 bits) { return ops::op_bf16_to_f32(bits); }
};

// value = scale * (number - Zero), a scale per block; where blocks have a d, per 32 values d times
// a signed byte
template <int Bits, int Zero>
struct SymmetricFamily {};
// The same with numbers of one bit: 1 stands for scale, 0 for -scale.
struct SignFamily {};
// The same with base-3 digits around 1, five in a byte.
struct TernaryFamily {};
// The same with codes of 4 bits for the numbers: a table of numbers of `bits` bits around `zero`.
struct Codebook {
  std::uint8_t numbers[16];
  int bits, zero;
};
template <const Codebook& book, class Scale = F16Bits>
struct CodebookFamily {};
// The same with a scale per 16 values: a byte b stands for (b % 16) 2^(b / 16 - 10).
template <const Codebook& book>
struct FineCodebookFamily {};
// value = scale * number - minimum: 6-bit scales and minima per 32 values, d and dmin per 256
template <int Bits>
struct KFamily {};
// value = scale * number - minimum: 4-bit scales and minima per 16 values, d and dmin per 256
template <int Bits>
struct FineKFamily {};
// value = scale * (number - Zero): signed bytes as scales per 16 values, d per 256
template <int Bits, int Zero>
struct FineFamily {};
// value = scale * number + bias, both per block of 32, 64 or 128 values: numbers of the type at the
// block's begin, scales first
template <int Bits, class Number>
struct AffineFamily {};
// points of a grid with signs or shifts: quant/grid.h
template <class Block>
struct GridFamily {};
// plain numbers; x stays f32
template <class Number>
struct FloatFamily {};

namespace r16 {

// Of one group of 16 rows.
template <class Form>
constexpr bool has_row_scales() {
  return requires { requires Form::row_scales; };
}
template <class Form>
constexpr std::size_t group_bytes(std::size_t cols) {
  return cols / Form::elements * Form::bytes + (has_row_scales<Form>() ? 16 * sizeof(float) : 0);
}

inline std::uint8_t* at(std::byte* p, std::size_t offset) {
  return reinterpret_cast<std::uint8_t*>(p + offset);
}
inline const std::uint8_t* at(const std::byte* p, std::size_t offset) {
  return reinterpret_cast<const std::uint8_t*>(p + offset);
}
inline std::uint16_t half_at(const std::byte* p, std::size_t offset, std::size_t r) {
  std::uint16_t h;
  std::memcpy(&h, p + offset + 2 * r, 2);
  return h;
}
inline float f16_at(const std::byte* p, std::size_t offset, std::size_t r) {
  return ops::op_f16_to_f32(half_at(p, offset, r));
}

// Bits of the first plane of numbers of N bits.
constexpr int plane_bits(int n) { return n >= 8 ? 8 : n >= 4 ? 4 : n >= 2 ? 2 : 1; }

// Number k of 32 in row r, N bits; put: into zero bits.
template <int N>
inline void put(std::uint8_t* vectors, std::size_t r, std::size_t k, int q) {
  constexpr int bits = plane_bits(N);
  std::uint8_t& byte = vectors[64 * (k / 4 % bits) + 4 * r + k % 4];
  byte = static_cast<std::uint8_t>(byte | (q & ((1 << bits) - 1)) << k / 4 / bits * bits);
  if constexpr (N > bits) put<N - bits>(vectors + 64 * bits, r, k, q >> bits);
}
template <int N>
inline int get(const std::uint8_t* vectors, std::size_t r, std::size_t k) {
  constexpr int bits = plane_bits(N);
  const std::uint8_t byte = vectors[64 * (k / 4 % bits) + 4 * r + k % 4];
  int q = byte >> k / 4 / bits * bits & ((1 << bits) - 1);
  if constexpr (N > bits) q |= get<N - bits>(vectors + 64 * bits, r, k) << bits;
  return q;
}
// The plane of 4 bits of row r: byte j of qs has value j in its low bits, j + 16 in its high ones.
inline void put_halves(std::uint8_t* vectors, std::size_t r, const std::uint8_t* qs) {
  for (std::size_t v = 0; v < 4; ++v) std::memcpy(vectors + 64 * v + 4 * r, qs + 4 * v, 4);
}

}  // namespace r16
}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_R16_H_
