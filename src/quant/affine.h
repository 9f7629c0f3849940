// MLX affine weights: a row is a little-endian stream of numbers of 2 to 8 bits, and per group of
// 32, 64 or 128 along the row a scale and a bias: w = q * scale + bias.
#ifndef ONEPASS_QUANT_AFFINE_H_
#define ONEPASS_QUANT_AFFINE_H_

#include "quant/fit.h"
#include "quant/r16.h"

namespace onepass::quant {

// Which of them there are.
OP_FN bool is_affine_bits(std::uint32_t n) { return (n >= 2 && n <= 6) || n == 8; }
OP_FN bool is_affine_group(std::uint32_t size) { return size == 32 || size == 64 || size == 128; }
inline constexpr char affine_bits_names[] = "2, 3, 4, 5, 6 or 8";
inline constexpr char affine_group_names[] = "32, 64 or 128";

// 8 numbers of Bits bits from Bits bytes.
template <int Bits>
OP_FN void affine_unpack_8(const std::uint8_t* bytes, float* out) {
  std::uint64_t word = 0;
  for (int j = 0; j < Bits; ++j) word |= static_cast<std::uint64_t>(bytes[j]) << (8 * j);
  for (int j = 0; j < 8; ++j) {
    out[j] =
        static_cast<float>(static_cast<std::uint32_t>(word >> (Bits * j)) & ((1u << Bits) - 1u));
  }
}

// One group: n numbers, a multiple of 8, starting at a byte.
template <int Bits>
OP_FN void affine_dequantize(const std::uint8_t* bytes, int n, float scale, float bias,
                             float* out) {
  for (int i = 0; i < n; i += 8) {
    affine_unpack_8<Bits>(bytes + i / 8 * Bits, out + i);
    for (int j = 0; j < 8; ++j) out[i + j] = out[i + j] * scale + bias;
  }
}

OP_FN void affine_dequantize(int bits, const std::uint8_t* bytes, int n, float scale, float bias,
                             float* out) {
  switch (bits) {
    case 2:
      return affine_dequantize<2>(bytes, n, scale, bias, out);
    case 3:
      return affine_dequantize<3>(bytes, n, scale, bias, out);
    case 4:
      return affine_dequantize<4>(bytes, n, scale, bias, out);
    case 5:
      return affine_dequantize<5>(bytes, n, scale, bias, out);
    case 6:
      return affine_dequantize<6>(bytes, n, scale, bias, out);
    default:
      return affine_dequantize<8>(bytes, n, scale, bias, out);
  }
}

// Scale and bias of a group as MLX chooses them: the end of the range with the larger magnitude is
// exact, and the scale is negative where that is the upper end.
struct AffineGroup {
  float scale, bias;
};
OP_FN AffineGroup affine_fit(const float* x, int n, int bits) {
  const float top = static_cast<float>((1 << bits) - 1);
  const Range r = range_of(x, n);
  float scale = (r.hi - r.lo) / top;
  scale = scale > 1e-7f ? scale : 1e-7f;
  const bool low = magnitude(r.lo) > magnitude(r.hi);
  if (!low) scale = -scale;
  const float edge = low ? r.lo : r.hi;
  const float q0 = static_cast<float>(round_to(edge / scale, -(1 << 30), 1 << 30));
  if (q0 == 0.0f) return {scale, 0.0f};
  return {edge / q0, edge};
}

// Writes n numbers, a multiple of 8, and gives back their scale and bias.
OP_FN AffineGroup affine_quantize(int bits, const float* x, int n, std::uint8_t* bytes) {
  const AffineGroup g = affine_fit(x, n, bits);
  for (int i = 0; i < n; i += 8) {
    std::uint64_t word = 0;
    for (int j = 0; j < 8; ++j) {
      const int q = round_to((x[i + j] - g.bias) / g.scale, 0, (1 << bits) - 1);
      word |= static_cast<std::uint64_t>(q) << (bits * j);
    }
    for (int j = 0; j < bits; ++j) {
      bytes[i / 8 * bits + j] = static_cast<std::uint8_t>(word >> (8 * j));
    }
  }
  return g;
}

// Layout r16: Group numbers of N bits, 32 after 32; scales and biases as the file has them.
template <int N, class NumberT, std::size_t Group = 64>
struct PackedAffine {
  using Number = NumberT;
  using Bits = typename Number::Bits;
  using Family = AffineFamily<N, Number>;
  static constexpr int bits = N;
  static constexpr std::size_t elements = Group, scales = 0, biases = 16 * sizeof(Bits);
  static constexpr std::size_t numbers = 2 * biases, sub_bytes = 64 * N;
  static constexpr std::size_t bytes = numbers + Group / 32 * sub_bytes;

  // stream: the bytes of a row from the first number of the group on
  static void put(const std::uint8_t* stream, Bits scale, Bits bias, std::size_t r,
                  std::byte* dst) {
    std::memcpy(dst + scales + sizeof(Bits) * r, &scale, sizeof(Bits));
    std::memcpy(dst + biases + sizeof(Bits) * r, &bias, sizeof(Bits));
    for (std::size_t k = 0; k < Group; k += 8) {
      std::uint64_t word = 0;  // 8 numbers fill N bytes
      for (int j = 0; j < N; ++j) {
        word |= static_cast<std::uint64_t>(stream[k / 8 * N + static_cast<std::size_t>(j)])
                << (8 * j);
      }
      std::uint8_t* vectors = r16::at(dst, numbers + sub_bytes * (k / 32));
      for (std::size_t j = 0; j < 8; ++j) {
        const auto q = static_cast<int>(word >> (N * j) & ((1u << N) - 1u));
        r16::put<N>(vectors, r, k % 32 + j, q);
      }
    }
  }
  static float number_at(const std::byte* src, std::size_t offset, std::size_t r) {
    Bits number;
    std::memcpy(&number, src + offset + sizeof(Bits) * r, sizeof(Bits));
    return Number::value(number);
  }
  static void get(const std::byte* src, std::size_t r, float* out) {
    const float scale = number_at(src, scales, r), bias = number_at(src, biases, r);
    for (std::size_t k = 0; k < Group; ++k) {
      const std::uint8_t* vectors = r16::at(src, numbers + sub_bytes * (k / 32));
      out[k] = static_cast<float>(r16::get<N>(vectors, r, k % 32)) * scale + bias;
    }
  }
};

// By the names of the types.
namespace affine {
#define AFFINE(bits)                                         \
  using a##bits##_f32 = PackedAffine<bits, F32Bits>;         \
  using a##bits##_f16 = PackedAffine<bits, F16Bits>;         \
  using a##bits##_bf16 = PackedAffine<bits, BF16Bits>;       \
  using a##bits##_f32_g32 = PackedAffine<bits, F32Bits, 32>; \
  using a##bits##_f16_g32 = PackedAffine<bits, F16Bits, 32>; \
  using a##bits##_bf16_g32 = PackedAffine<bits, BF16Bits, 32>;
AFFINE(2)
AFFINE(3)
AFFINE(4)
AFFINE(5)
AFFINE(6)
AFFINE(8)
#undef AFFINE
using a2_f32_g128 = PackedAffine<2, F32Bits, 128>;
using a2_f16_g128 = PackedAffine<2, F16Bits, 128>;
using a2_bf16_g128 = PackedAffine<2, BF16Bits, 128>;
using a3_f32_g128 = PackedAffine<3, F32Bits, 128>;
using a4_f32_g128 = PackedAffine<4, F32Bits, 128>;
}  // namespace affine

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_AFFINE_H_
