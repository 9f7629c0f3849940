// Layout s16, for GPUs: groups of 16 rows, and inside a group one plane after the other, each
// [16 rows][bytes of that plane per row]. Lanes of a warp read consecutive 16-byte pieces of a row.
//
//   float w[32];
//   quant::split_block<quant::SplitQ4_0>(matrix, k, row, b, w);  // values 32 b .. 32 b + 31
//
// Planes, per row of k values:
//   numbers  4 bits: k / 2 bytes, per 32 values byte j has value j in its low bits and 16 + j in
//   its
//            high ones; 8 bits: k signed bytes (aN: the number less 128)
//   q5_k     k / 8 bytes, per 32 values 4: bit v of byte j is the fifth bit of value 4 v + j
//   q6_k     k / 4 bytes, per 32 values 8: bits 2 v and 2 v + 1 of byte 4 h + j are the upper bits
//   of
//            value 16 h + 4 v + j
//   scales   q4_0, q8_0: f16 per 32 values; q4_k, q5_k: a scale and a minimum, one byte each, per
//   32,
//            then f16 d and dmin per 256; q6_k: a signed byte per 16, then f16 d per 256; aN: scale
//            and bias per 64, f16 or bf16
// Rows beyond the matrix are zero bytes.
#ifndef ONEPASS_QUANT_SPLIT_H_
#define ONEPASS_QUANT_SPLIT_H_

#include <cstring>

#include "quant/affine.h"
#include "quant/q4_0.h"
#include "quant/q5_k.h"
#include "quant/q6_k.h"
#include "quant/q8_0.h"

namespace onepass::quant {

struct SplitLayout {
  static constexpr std::uint32_t rows = 16;
  static OP_FN std::uint32_t u16(const std::uint8_t* p) {
    return static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 8;
  }
  static void put4(std::uint8_t* bytes, std::size_t e, int q) {
    std::uint8_t& byte = bytes[e % 16];
    byte = static_cast<std::uint8_t>(byte | q << (e < 16 ? 0 : 4));
  }
  // Value e of 32 from 16 bytes.
  static OP_FN int nibble(const std::uint8_t* p, std::uint32_t e) {
    return p[e % 16] >> (e < 16 ? 0 : 4) & 15;
  }
};

// Each: offsets in bytes from the start of the group to the planes of row r; get(), which gives
// values 32 b .. 32 b + 31 of the row: the bits of dequantize() of the native block; and put(),
// which moves native block b of row r into a group whose bytes are zero.

struct SplitQ8_0 : SplitLayout {
  using Block = BlockQ8_0;
  static constexpr std::uint32_t elements = 32, bytes = 34;
  static OP_FN std::uint64_t numbers(std::uint64_t k, std::uint64_t r) { return r * k; }
  static OP_FN std::uint64_t scales(std::uint64_t k, std::uint64_t r) {
    return 16 * k + r * (k / 16);
  }
  static OP_FN void get(const std::uint8_t* group, std::uint64_t k, std::uint64_t r,
                        std::uint64_t b, float* out) {
    const std::uint8_t* q = group + numbers(k, r) + 32 * b;
    const float d = ops::op_f16_to_f32(u16(group + scales(k, r) + 2 * b));
    for (int e = 0; e < 32; ++e) {
      out[e] = static_cast<float>(static_cast<std::int8_t>(q[e])) * d;
    }
  }
  static void put(const Block& block, std::uint64_t k, std::uint64_t r, std::uint64_t b,
                  std::uint8_t* group) {
    std::memcpy(group + numbers(k, r) + 32 * b, block.qs, 32);
    std::memcpy(group + scales(k, r) + 2 * b, &block.d, 2);
  }
};

struct SplitQ4_0 : SplitLayout {
  using Block = BlockQ4_0;
  static constexpr std::uint32_t elements = 32, bytes = 18;
  static OP_FN std::uint64_t numbers(std::uint64_t k, std::uint64_t r) { return r * (k / 2); }
  static OP_FN std::uint64_t scales(std::uint64_t k, std::uint64_t r) {
    return 8 * k + r * (k / 16);
  }
  static OP_FN void get(const std::uint8_t* group, std::uint64_t k, std::uint64_t r,
                        std::uint64_t b, float* out) {
    const std::uint8_t* q = group + numbers(k, r) + 16 * b;
    const float d = ops::op_f16_to_f32(u16(group + scales(k, r) + 2 * b));
    for (std::uint32_t e = 0; e < 32; ++e) out[e] = static_cast<float>(nibble(q, e) - 8) * d;
  }
  static void put(const Block& block, std::uint64_t k, std::uint64_t r, std::uint64_t b,
                  std::uint8_t* group) {
    std::memcpy(group + numbers(k, r) + 16 * b, block.qs, 16);
    std::memcpy(group + scales(k, r) + 2 * b, &block.d, 2);
  }
};

template <class BlockT, bool FifthBit>
struct SplitK : SplitLayout {
  using Block = BlockT;
  static constexpr std::uint32_t elements = 256, bytes = FifthBit ? 180 : 148;
  static OP_FN std::uint64_t numbers(std::uint64_t k, std::uint64_t r) { return r * (k / 2); }
  static OP_FN std::uint64_t scales(std::uint64_t k, std::uint64_t r) {
    return 8 * k + r * (k / 16);
  }
  static OP_FN std::uint64_t d(std::uint64_t k, std::uint64_t r) { return 9 * k + r * (k / 64); }
  static OP_FN std::uint64_t high(std::uint64_t k, std::uint64_t r) {
    return 9 * k + k / 4 + r * (k / 8);
  }
  static OP_FN int fifth(const std::uint8_t* p, std::uint32_t e) { return p[e % 4] >> e / 4 & 1; }
  static OP_FN void get(const std::uint8_t* group, std::uint64_t k, std::uint64_t r,
                        std::uint64_t b, float* out) {
    const std::uint8_t* q = group + numbers(k, r) + 16 * b;
    const std::uint8_t* s = group + scales(k, r) + 2 * b;
    const std::uint8_t* both = group + d(k, r) + b / 8 * 4;
    const float scale = ops::op_f16_to_f32(u16(both)) * static_cast<float>(s[0]);
    const float minimum = ops::op_f16_to_f32(u16(both + 2)) * static_cast<float>(s[1]);
    for (std::uint32_t e = 0; e < 32; ++e) {
      int number = nibble(q, e);
      if constexpr (FifthBit) number |= fifth(group + high(k, r) + 4 * b, e) << 4;
      out[e] = scale * static_cast<float>(number) - minimum;
    }
  }
  static void put(const Block& block, std::uint64_t k, std::uint64_t r, std::uint64_t b,
                  std::uint8_t* group) {
    std::memcpy(group + d(k, r) + 4 * b, &block.d, 2);
    std::memcpy(group + d(k, r) + 4 * b + 2, &block.dmin, 2);
    for (int j = 0; j < 8; ++j) {
      const std::uint64_t sub = 8 * b + static_cast<std::uint64_t>(j);
      group[scales(k, r) + 2 * sub] = static_cast<std::uint8_t>(scale_of(block.scales, j));
      group[scales(k, r) + 2 * sub + 1] = static_cast<std::uint8_t>(minimum_of(block.scales, j));
      for (std::size_t e = 0; e < 32; ++e) {
        const int q = number_of(block, 32 * j + static_cast<int>(e));
        put4(group + numbers(k, r) + 16 * sub, e, q & 15);
        if constexpr (FifthBit) {
          std::uint8_t& high_byte = group[high(k, r) + 4 * sub + e % 4];
          high_byte = static_cast<std::uint8_t>(high_byte | q >> 4 << e / 4);
        }
      }
    }
  }
};
using SplitQ4_K = SplitK<BlockQ4_K, false>;
using SplitQ5_K = SplitK<BlockQ5_K, true>;

struct SplitQ6_K : SplitLayout {
  using Block = BlockQ6_K;
  static constexpr std::uint32_t elements = 256, bytes = 210;
  static OP_FN std::uint64_t numbers(std::uint64_t k, std::uint64_t r) { return r * (k / 2); }
  static OP_FN std::uint64_t high(std::uint64_t k, std::uint64_t r) { return 8 * k + r * (k / 4); }
  static OP_FN std::uint64_t scales(std::uint64_t k, std::uint64_t r) {
    return 12 * k + r * (k / 16);
  }
  static OP_FN std::uint64_t d(std::uint64_t k, std::uint64_t r) { return 13 * k + r * (k / 128); }
  static OP_FN int upper(const std::uint8_t* p, std::uint32_t e) {
    return p[e / 16 * 4 + e % 4] >> 2 * (e % 16 / 4) & 3;
  }
  static OP_FN void get(const std::uint8_t* group, std::uint64_t k, std::uint64_t r,
                        std::uint64_t b, float* out) {
    const std::uint8_t* q = group + numbers(k, r) + 16 * b;
    const std::uint8_t* h = group + high(k, r) + 8 * b;
    const std::uint8_t* s = group + scales(k, r) + 2 * b;
    const float scale = ops::op_f16_to_f32(u16(group + d(k, r) + b / 8 * 2));
    for (std::uint32_t e = 0; e < 32; ++e) {
      const float sub = scale * static_cast<float>(static_cast<std::int8_t>(s[e / 16]));
      out[e] = sub * static_cast<float>((nibble(q, e) | upper(h, e) << 4) - 32);
    }
  }
  static void put(const Block& block, std::uint64_t k, std::uint64_t r, std::uint64_t b,
                  std::uint8_t* group) {
    std::memcpy(group + d(k, r) + 2 * b, &block.d, 2);
    std::memcpy(group + scales(k, r) + 16 * b, block.scales, 16);
    for (std::size_t e = 0; e < 256; ++e) {
      const std::uint64_t sub = 8 * b + e / 32, v = e % 32;
      const int q = number_of(block, static_cast<int>(e));
      put4(group + numbers(k, r) + 16 * sub, v, q & 15);
      std::uint8_t& high_byte = group[high(k, r) + 8 * sub + v / 16 * 4 + v % 4];
      high_byte = static_cast<std::uint8_t>(high_byte | q >> 4 << 2 * (v % 16 / 4));
    }
  }
};

template <int Bits, class NumberT>
struct SplitAffine : SplitLayout {
  using Number = NumberT;
  static constexpr int bits = Bits;
  static constexpr std::uint32_t elements = 64, bytes = 8 * Bits + 4;
  static OP_FN std::uint64_t numbers(std::uint64_t k, std::uint64_t r) {
    return r * (k * Bits / 8);
  }
  static OP_FN std::uint64_t scales(std::uint64_t k, std::uint64_t r) {
    return 2 * k * Bits + r * (k / 16);
  }
  static OP_FN void get(const std::uint8_t* group, std::uint64_t k, std::uint64_t r,
                        std::uint64_t b, float* out) {
    const std::uint8_t* q = group + numbers(k, r) + 4 * Bits * b;
    const std::uint8_t* s = group + scales(k, r) + b / 2 * 4;
    const float scale = Number::value(u16(s)), bias = Number::value(u16(s + 2));
    for (std::uint32_t e = 0; e < 32; ++e) {
      const int number = Bits == 4 ? nibble(q, e) : static_cast<std::int8_t>(q[e]) + 128;
      out[e] = static_cast<float>(number) * scale + bias;
    }
  }
  // stream: 8 Bits bytes of the row's bits for group b of 64 values
  static void put(const std::uint8_t* stream, std::uint16_t scale, std::uint16_t bias,
                  std::uint64_t k, std::uint64_t r, std::uint64_t b, std::uint8_t* group) {
    std::uint8_t* to = group + numbers(k, r) + 8 * Bits * b;
    for (std::uint32_t e = 0; e < 64; ++e) {
      if constexpr (Bits == 4) {
        put4(to + e / 32 * 16, e % 32, stream[e / 2] >> 4 * (e % 2) & 15);
      } else {
        to[e] = static_cast<std::uint8_t>(stream[e] ^ 0x80);
      }
    }
    std::memcpy(group + scales(k, r) + 4 * b, &scale, 2);
    std::memcpy(group + scales(k, r) + 4 * b + 2, &bias, 2);
  }
};
using SplitA4F16 = SplitAffine<4, F16Bits>;
using SplitA4BF16 = SplitAffine<4, BF16Bits>;
using SplitA8F16 = SplitAffine<8, F16Bits>;
using SplitA8BF16 = SplitAffine<8, BF16Bits>;

template <class Form>
OP_FN std::uint64_t split_group_bytes(std::uint64_t k) {
  return k / Form::elements * Form::bytes * SplitLayout::rows;
}

// Values 32 b .. 32 b + 31 of a row of a matrix with k columns.
template <class Form>
OP_FN void split_block(const void* matrix, std::uint64_t k, std::uint64_t row, std::uint64_t b,
                       float* out) {
  const auto* bytes = static_cast<const std::uint8_t*>(matrix);
  Form::get(bytes + row / SplitLayout::rows * split_group_bytes<Form>(k), k,
            row % SplitLayout::rows, b, out);
}

}  // namespace onepass::quant

#endif  // ONEPASS_QUANT_SPLIT_H_
