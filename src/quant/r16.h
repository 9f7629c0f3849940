// Layout r16, for the CPU's kernels: blocks of 16 rows interleaved, one group of 16 rows after the
// other, within a group one block after the other along k.
//
// Byte 4 r + j of a vector of 64 bytes belongs to row r of the group. Numbers of 4 bits: vector v
// of 32 values along k holds value 4 v + j in the low bits and 16 + 4 v + j in the high ones; of 8
// bits: value 4 v + j. Scales are one per row, f16 unless said otherwise. Rows beyond the matrix
// are zero bytes.
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

// value = scale * (number - Zero), a scale per 32 values
template <int Bits, int Zero>
struct SymmetricFamily {};
// value = scale * number - minimum: 6-bit scales and minima per 32 values, d and dmin per 256
template <int Bits>
struct KFamily {};
// value = scale * (number - 32), signed scales per 16 values, d per 256
struct Signed6Family {};
// value = scale * number + bias, both per 64 values
template <int Bits, class Half>
struct AffineFamily {};
// plain numbers; x stays f32
template <class Number>
struct FloatFamily {};

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

namespace r16 {

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

// 32 numbers of row r in vectors of 64 bytes.
inline void put4(std::uint8_t* vectors, std::size_t r, std::size_t k, int q) {
  std::uint8_t& byte = vectors[64 * (k % 16 / 4) + 4 * r + k % 4];
  byte = static_cast<std::uint8_t>(byte | q << (k < 16 ? 0 : 4));
}
inline int get4(const std::uint8_t* vectors, std::size_t r, std::size_t k) {
  return vectors[64 * (k % 16 / 4) + 4 * r + k % 4] >> (k < 16 ? 0 : 4) & 15;
}
inline std::size_t place8(std::size_t r, std::size_t k) { return 64 * (k / 4) + 4 * r + k % 4; }
// One more bit of each: bit v of byte 4 r + j of the plane is that of value 4 v + j.
inline void put1(std::uint8_t* plane, std::size_t r, std::size_t k, int bit) {
  std::uint8_t& byte = plane[4 * r + k % 4];
  byte = static_cast<std::uint8_t>(byte | bit << k / 4);
}
inline int get1(const std::uint8_t* plane, std::size_t r, std::size_t k) {
  return plane[4 * r + k % 4] >> k / 4 & 1;
}

}  // namespace r16
}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_R16_H_
